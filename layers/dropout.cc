#include "armature/layers/dropout.h"

#include "absl/strings/str_cat.h"
#include "armature/tensor/ops/dropout.h"

namespace armature {

Tensor Dropout::AddTo(Context& context, const Tensor& residual, const Tensor& x) const {
  if (!x.ok()) return x;
  if (x.shape().rank() < 2) {
    return Tensor::Failed(absl::InvalidArgumentError(
        absl::StrCat("Dropout: x ", x.shape().ToString(), ": [samples, ..., n] is needed")));
  }
  const int64_t cols = x.shape().dim(-1);
  const int64_t samples = x.shape().dim(0);
  const int64_t rows = samples * cols == 0 ? 0 : x.num_elements() / (samples * cols);
  const int64_t first_row = x.shape().rank() < 3 ? 0 : context.tensor().FirstPosition(rows);
  return ops::Dropout(x, residual, context.training() ? p_ : 0,
                      context.Dropout(layer_, rows, cols, first_row));
}

}  // namespace armature
