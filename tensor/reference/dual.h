// Dual numbers: a value and its exact derivative with respect to one seeded input, carried through every
// operation (a + b e with e^2 = 0). Tests run a reference kernel's forward formula on them and so get the
// derivative that its backward must compute, without a difference quotient's error.
//
//   Dual x{3, 1};            // the input that is varied
//   Dual y = exp(x * x);     // y.derivative == 6 exp(9)
//
// Reference: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 3.
#ifndef ARMATURE_TENSOR_REFERENCE_DUAL_H_
#define ARMATURE_TENSOR_REFERENCE_DUAL_H_

#include <cmath>

namespace armature {

struct Dual {
  double value = 0;
  double derivative = 0;

  Dual() = default;
  Dual(double value, double derivative = 0) : value(value), derivative(derivative) {}  // constants convert

  Dual& operator+=(const Dual& b) { return *this = Dual(value + b.value, derivative + b.derivative); }
};

inline Dual operator-(const Dual& a) { return {-a.value, -a.derivative}; }
inline Dual operator+(const Dual& a, const Dual& b) {
  return {a.value + b.value, a.derivative + b.derivative};
}
inline Dual operator-(const Dual& a, const Dual& b) {
  return {a.value - b.value, a.derivative - b.derivative};
}
inline Dual operator*(const Dual& a, const Dual& b) {
  return {a.value * b.value, a.derivative * b.value + a.value * b.derivative};
}
inline Dual operator/(const Dual& a, const Dual& b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.derivative - quotient * b.derivative) / b.value};
}

// Comparisons are of values: a branch is taken as it would be without the derivative.
inline bool operator<(const Dual& a, const Dual& b) { return a.value < b.value; }
inline bool operator>(const Dual& a, const Dual& b) { return a.value > b.value; }
inline bool operator==(const Dual& a, const Dual& b) { return a.value == b.value; }

inline Dual exp(const Dual& x) { return {std::exp(x.value), std::exp(x.value) * x.derivative}; }
inline Dual log(const Dual& x) { return {std::log(x.value), x.derivative / x.value}; }
inline Dual sqrt(const Dual& x) {
  const double root = std::sqrt(x.value);
  return {root, x.derivative / (2 * root)};
}
inline Dual erfc(const Dual& x) {
  return {std::erfc(x.value),
          -1.1283791670955126 * std::exp(-x.value * x.value) * x.derivative};  // 2 / sqrt(pi)
}

}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_DUAL_H_
