// y = exp(x - max) / sum(exp(x - max)) over each row; dx = y (dy - sum(dy y)).
#ifndef ARMATURE_TENSOR_REFERENCE_SOFTMAX_H_
#define ARMATURE_TENSOR_REFERENCE_SOFTMAX_H_

#include <cmath>

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

template <typename T>
void Softmax(const SoftmaxArgs& args) {
  using std::exp;
  using N = Number<T>;
  const Input<T> x(args.x);
  const Output<T> y(args.y);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t begin = r * args.cols, end = begin + args.cols;
    if (begin == end) continue;
    N max = x[begin], sum = 0;
    for (int64_t i = begin; i < end; ++i) max = x[i] > max ? x[i] : max;
    for (int64_t i = begin; i < end; ++i) sum += exp(x[i] - max);
    for (int64_t i = begin; i < end; ++i) y.Write(i, exp(x[i] - max) / sum);
  }
}

template <typename T>
void SoftmaxBackward(const SoftmaxBackwardArgs& args) {
  const Input<T> y(args.y), dy(args.dy);
  const Output<T> dx(args.dx);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t begin = r * args.cols, end = begin + args.cols;
    Number<T> dot = 0;
    for (int64_t i = begin; i < end; ++i) dot += dy[i] * y[i];
    for (int64_t i = begin; i < end; ++i) dx.Write(i, y[i] * (dy[i] - dot), args.accumulate);
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_SOFTMAX_H_
