// Sums, products, conversions and fills.
#ifndef ARMATURE_TENSOR_REFERENCE_ELEMENTWISE_H_
#define ARMATURE_TENSOR_REFERENCE_ELEMENTWISE_H_

#include "armature/tensor/kernels.h"
#include "armature/tensor/random.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

template <typename T>
void Axpby(const AxpbyArgs& args) {
  const Input<T> a(args.a), b(args.b);
  const Output<T> y(args.y);
  for (int64_t i = 0; i < args.count; ++i) {
    y.Write(i, b ? args.alpha * a[i] + args.beta * b[i] : args.alpha * a[i]);
  }
}

template <typename T>
void Multiply(const MultiplyArgs& args) {
  const Input<T> a(args.a), b(args.b);
  const Output<T> y(args.y);
  for (int64_t i = 0; i < args.count; ++i) {
    y.Write(i, a[i] * b[args.scalar_b ? 0 : i], args.accumulate);
  }
}

template <typename T>
void Sum(const SumArgs& args) {
  const Input<T> x(args.x);
  Number<T> sum = 0;
  for (int64_t i = 0; i < args.count; ++i) sum += x[i];
  Output<Statistic<T>>(args.out).Write(0, sum, args.accumulate);
}

template <typename T>
void CopyBlocks(const CopyBlocksArgs& args) {
  const T* x = static_cast<const T*>(args.x);
  T* y = static_cast<T*>(args.y);
  for (int64_t i = 0; i < args.outer; ++i) {
    for (int64_t j = 0; j < args.inner; ++j) {
      for (int64_t e = 0; e < args.block; ++e) {
        y[i * args.y_outer + j * args.y_inner + e] = x[i * args.x_outer + j * args.x_inner + e];
      }
    }
  }
}

// T: of x. O: of the sums.
template <typename T, typename O>
void ColumnSum(const ColumnSumArgs& args) {
  const Input<T> x(args.x);
  const Output<O> out(args.out);
  for (int64_t c = 0; c < args.cols; ++c) {
    Number<T> sum = 0;
    for (int64_t r = 0; r < args.rows; ++r) sum += x[r * args.cols + c];
    out.Write(c, sum, args.accumulate);
  }
}

template <typename From, typename To>
void Cast(const CastArgs& args) {
  const Input<From> x(args.x);
  const Output<To> y(args.y);
  for (int64_t i = 0; i < args.count; ++i) y.Write(i, x[i]);
}

template <typename T>
void Fill(const FillArgs& args) {
  const Output<T> y(args.y);
  for (int64_t i = 0; i < args.count; ++i) y.Write(i, args.value);
}

template <typename T>
void RandomFill(const RandomFillArgs& args) {
  const Output<T> y(args.y);
  const RandomRegion& region = args.region;
  int64_t i = 0;
  for (int64_t r = 0; r < region.rows; ++r) {
    for (int64_t c = 0; c < region.cols; ++c, ++i) {
      const int64_t element = (region.row_offset + r) * region.global_cols + region.col_offset + c;
      const double z =
          args.normal ? NormalFloat(region.key, element) : UniformFloat(RandomBits(region.key, 0, element));
      y.Write(i, args.offset + args.scale * z);
    }
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_ELEMENTWISE_H_
