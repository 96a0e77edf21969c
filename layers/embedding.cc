#include "armature/layers/embedding.h"

#include "absl/strings/str_cat.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/embedding.h"
#include "armature/tensor/ops/linear.h"

namespace armature {

Embedding::Embedding(ModuleBuilder builder, int64_t rows, int64_t n, const Initializer& init)
    : weight_(builder.Parameter("weight", {rows, n}, init)) {}

Tensor Embedding::operator()(Context& context, const Tensor& ids) const {
  return ops::Embedding(context.Use(weight_), ids);
}

LearnedPositions::LearnedPositions(ModuleBuilder builder, int64_t max_positions, int64_t n,
                                   const Initializer& init)
    : max_positions_(max_positions), weight_(builder.Parameter("weight", {max_positions, n}, init)) {}

Tensor LearnedPositions::AddTo(Context& context, const Tensor& x) const {
  if (!x.ok()) return x;
  const int64_t positions = x.shape().dim(1);
  if (positions > max_positions_) {
    return Tensor::Failed(absl::InvalidArgumentError(
        absl::StrCat("a sequence of ", positions, " positions; the model has ", max_positions_)));
  }
  return ops::AddBroadcast(x, ops::Slice(context.Use(weight_), 0, positions));
}

TiedHead::TiedHead(ModuleBuilder builder, absl::string_view table, int64_t rows, int64_t n,
                   const Initializer& init)
    : table_(builder.Tied(table, {rows, n}, init)) {}

Tensor TiedHead::operator()(Context& context, const Tensor& x) const {
  ops::LinearOptions options;
  options.weight_is_out_in = true;
  return ops::Linear(x, context.Use(table_), Tensor(), options);
}

}  // namespace armature
