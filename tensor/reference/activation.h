// Activations f(x) and their derivatives f'(x), alone and as the kernels around them.
//
//   none       x                                     1
//   gelu_erf   x P(x)                                P(x) + x p(x)          P, p: the normal distribution,
//   its density gelu_tanh  x/2 (1 + tanh u)                      (1 + tanh u)/2 + x/2 (1 - tanh^2 u) u' silu
//   x s(x)                                s (1 + x (1 - s))      s(x) = 1 / (1 + exp(-x)) relu       max(x,
//   0)                             1 if x > 0, else 0
//
// with u = sqrt(2/pi) (x + 0.044715 x^3). The form with s keeps its digits in the left tail, where tanh u is
// nearly -1.
#ifndef ARMATURE_TENSOR_REFERENCE_ACTIVATION_H_
#define ARMATURE_TENSOR_REFERENCE_ACTIVATION_H_

#include <cmath>

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;

template <typename N>
N Activate(Activation activation, const N& x) {
  using std::erfc, std::exp;
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kGeluErf:
      return 0.5 * x * erfc(-kSqrtHalf * x);
    case Activation::kGeluTanh:
      return x / (1 + exp(-2 * kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
    case Activation::kSilu:
      return x / (1 + exp(-x));
    case Activation::kRelu:
      return x < 0 ? N(0) : x;  // NaN stays NaN
  }
  return x;
}

inline double ActivationDerivative(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return 1;
    case Activation::kGeluErf:
      return 0.5 * std::erfc(-kSqrtHalf * x) + x * kInverseSqrtTwoPi * std::exp(-0.5 * x * x);
    case Activation::kGeluTanh: {
      const double s = 1 / (1 + std::exp(-2 * kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
      return s + x * s * (1 - s) * 2 * kSqrtTwoOverPi * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::kSilu: {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    }
    case Activation::kRelu:
      return x > 0 ? 1 : 0;
  }
  return 1;
}

template <typename T>
void BiasActivation(const BiasActivationArgs& args) {
  const Input<T> x(args.x), bias(args.bias);
  const Output<T> y(args.y), pre(args.pre);
  for (int64_t r = 0; r < args.rows; ++r) {
    for (int64_t c = 0; c < args.cols; ++c) {
      const int64_t i = r * args.cols + c;
      const Number<T> z = bias ? x[i] + bias[c] : x[i];
      if (pre) pre.Write(i, z);
      y.Write(i, Activate(args.activation, z));
    }
  }
}

template <typename T>
void ActivationBackward(const ActivationBackwardArgs& args) {
  const Input<T> pre(args.pre), dy(args.dy);
  const Output<T> dx(args.dx);
  for (int64_t i = 0; i < args.count; ++i) {
    dx.Write(i, dy[i] * ActivationDerivative(args.activation, pre[i]), args.accumulate);
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_ACTIVATION_H_
