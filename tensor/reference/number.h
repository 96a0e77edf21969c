// What the reference kernels compute with: a kernel is a template on the stored type T, reads it as
// Number<T>, and rounds once when it writes.
//
//   stored type             Number     Statistic
//   float, Float16, BFloat16  double     float       (f32, f16, bf16)
//   double                    double     double      (f64)
//   anything else             itself     itself      (dual numbers, by which tests differentiate the forward
//   kernels)
#ifndef ARMATURE_TENSOR_REFERENCE_NUMBER_H_
#define ARMATURE_TENSOR_REFERENCE_NUMBER_H_

#include <cstdint>

#include "armature/tensor/float16.h"

namespace armature {
namespace reference {

template <typename T>
struct NumberTraits {
  using Number = T;
  using Statistic = T;
};
template <>
struct NumberTraits<float> {
  using Number = double;
  using Statistic = float;
};
template <>
struct NumberTraits<Float16> : NumberTraits<float> {};
template <>
struct NumberTraits<BFloat16> : NumberTraits<float> {};

template <typename T>
using Number = typename NumberTraits<T>::Number;
// The stored type of means, log-sums and losses.
template <typename T>
using Statistic = typename NumberTraits<T>::Statistic;

template <typename T>
struct Rounded {
  static T From(const Number<T>& value) { return static_cast<T>(value); }
};
template <>
struct Rounded<Float16> {
  static Float16 From(double value) { return Float16(static_cast<float>(value)); }
};
template <>
struct Rounded<BFloat16> {
  static BFloat16 From(double value) { return BFloat16(static_cast<float>(value)); }
};

// Elements that are read. Null gives a false Input, which must not be indexed.
template <typename T>
class Input {
 public:
  explicit Input(const void* data) : data_(static_cast<const T*>(data)) {}
  explicit operator bool() const { return data_ != nullptr; }
  Number<T> operator[](int64_t i) const { return ToNumber(data_[i]); }

 private:
  static float ToNumber(Float16 value) { return static_cast<float>(value); }
  static float ToNumber(BFloat16 value) { return static_cast<float>(value); }
  template <typename U>
  static U ToNumber(U value) {
    return value;
  }

  const T* data_;
};

// Elements that are written. Null gives a false Output.
template <typename T>
class Output {
 public:
  explicit Output(void* data) : data_(static_cast<T*>(data)) {}
  explicit operator bool() const { return data_ != nullptr; }
  void Write(int64_t i, const Number<T>& value) const { data_[i] = Rounded<T>::From(value); }
  // Adds to what is there, or overwrites it without reading.
  void Write(int64_t i, const Number<T>& value, bool accumulate) const {
    Write(i, accumulate ? Input<T>(data_)[i] + value : value);
  }

 private:
  T* data_;
};

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_NUMBER_H_
