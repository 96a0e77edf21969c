#include "armature/layers/embedding.h"

#include "absl/strings/str_cat.h"
#include "armature/layers/parallel/collectives.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/embedding.h"

namespace armature {

Embedding::Embedding(ModuleBuilder builder, int64_t rows, int64_t n, const Initializer& init)
    : first_row_(builder.tensor_rank() * LocalShape({rows}, builder.SplitPadded(0)).dim(0)),
      weight_(builder.Parameter("weight", {rows, n}, init, builder.SplitPadded(0))) {}

Tensor Embedding::operator()(Context& context, const Tensor& ids) const {
  // Rows that other ranks have count 0 here, and the sum over ranks completes the result.
  return LeaveRegion(context.tensor(), ops::Embedding(context.Use(weight_), ids, first_row_));
}

LearnedPositions::LearnedPositions(ModuleBuilder builder, int64_t max_positions, int64_t n,
                                   const Initializer& init)
    : max_positions_(max_positions),
      weight_(builder.Parameter("weight", {max_positions, n}, init, builder.WholeOnSlices())) {}

Tensor LearnedPositions::AddTo(Context& context, const Tensor& x) const {
  if (!x.ok()) return x;
  const TensorGroup& group = context.tensor();
  const int64_t here = x.shape().dim(1), first = group.FirstPosition(here);
  const int64_t positions = group.sequence_parallel ? group.size() * here : here;
  if (positions > max_positions_) {
    return Tensor::Failed(absl::InvalidArgumentError(
        absl::StrCat("a sequence of ", positions, " positions; the model has ", max_positions_)));
  }
  return ops::AddBroadcast(x, ops::Slice(context.Use(weight_), first, first + here));
}

}  // namespace armature
