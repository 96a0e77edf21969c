// y = residual + keep x / (1 - p). What is dropped is not read: a NaN there does not spread.
#ifndef ARMATURE_TENSOR_REFERENCE_DROPOUT_H_
#define ARMATURE_TENSOR_REFERENCE_DROPOUT_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/random.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

// The factor of an element: 0 if it is dropped, otherwise 1 / (1 - p).
inline double DropoutFactor(double p, const RandomKey& key, int64_t sample, int64_t element) {
  return UniformFloat(RandomBits(key, sample, element)) >= p ? 1 / (1 - p) : 0;
}

template <typename T>
void Dropout(const DropoutArgs& args) {
  const Input<T> x(args.x), residual(args.residual);
  const Output<T> y(args.y);
  const RandomRegion& region = args.region;
  int64_t i = 0;
  for (int64_t s = 0; s < args.samples; ++s) {
    for (int64_t r = 0; r < region.rows; ++r) {
      for (int64_t c = 0; c < region.cols; ++c, ++i) {
        const int64_t element = (region.row_offset + r) * region.global_cols + region.col_offset + c;
        const double factor = DropoutFactor(args.p, region.key, region.first_sample + s, element);
        const Number<T> kept = factor == 0 ? Number<T>(0) : factor * x[i];
        y.Write(i, residual ? residual[i] + kept : kept, args.accumulate);
      }
    }
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_DROPOUT_H_
