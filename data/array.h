// Array: a row-major array in the host's memory that owns its bytes. What batches are made of, before an
// engine copies them to its devices.
//
//   ARMATURE_ASSIGN_OR_RETURN(Array tokens, Array::Create(Shape({8, 1024}), DType::kI32));
//   absl::Span<int32_t> values = tokens.values<int32_t>();
//
// Memory: aligned to 64 bytes, a cache line and the widest vector. Movable; Clone copies.
#ifndef ARMATURE_DATA_ARRAY_H_
#define ARMATURE_DATA_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "armature/tensor/buffer.h"
#include "armature/tensor/dtype.h"
#include "armature/tensor/float16.h"
#include "armature/tensor/shape.h"

namespace armature {

class Array {
 public:
  static constexpr std::align_val_t kAlignment{64};

  // Shape [0], f32.
  Array() = default;

  // All zeros. Errors: ResourceExhausted naming the shape.
  static absl::StatusOr<Array> Create(const Shape& shape, DType dtype);
  // A copy of `values`, whose type tells the dtype. Errors: InvalidArgument if there are not
  // shape.num_elements() of them; ResourceExhausted.
  template <typename T>
  static absl::StatusOr<Array> FromValues(const Shape& shape, absl::Span<const T> values);

  const Shape& shape() const { return shape_; }
  DType dtype() const { return dtype_; }
  int64_t size_bytes() const { return shape_.num_elements() * SizeOf(dtype_); }

  // The elements; T is float, double, Float16, BFloat16, int32_t, int64_t, uint8_t or bool. Empty if dtype()
  // is another: check it for arrays that others made.
  template <typename T>
  absl::Span<T> values();
  template <typename T>
  absl::Span<const T> values() const;

  // The bytes as files and devices see them.
  BufferView view() { return {data_.get(), shape_.num_elements(), dtype_, Device()}; }
  absl::Span<const char> bytes() const { return {data_.get(), static_cast<size_t>(size_bytes())}; }

  // Rows [begin, end) of the leading dimension, copied.
  // Errors: OutOfRange if they are not there, or this is a scalar; ResourceExhausted.
  absl::StatusOr<Array> Slice(int64_t begin, int64_t end) const;
  absl::StatusOr<Array> Clone() const;

 private:
  struct Free {
    void operator()(char* data) const { ::operator delete(data, kAlignment); }
  };

  // Without values.
  static absl::StatusOr<Array> Allocate(const Shape& shape, DType dtype);
  static absl::StatusOr<Array> FromBytes(const Shape& shape, DType dtype, absl::Span<const char> bytes);

  Shape shape_{0};
  DType dtype_ = DType::kF32;
  std::unique_ptr<char, Free> data_;
};

namespace internal {

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType kValue = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType kValue = DType::kF64;
};
template <>
struct DTypeOf<Float16> {
  static constexpr DType kValue = DType::kF16;
};
template <>
struct DTypeOf<BFloat16> {
  static constexpr DType kValue = DType::kBF16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType kValue = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType kValue = DType::kI64;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType kValue = DType::kU8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType kValue = DType::kBool;
};

}  // namespace internal

template <typename T>
absl::StatusOr<Array> Array::FromValues(const Shape& shape, absl::Span<const T> values) {
  return FromBytes(shape, internal::DTypeOf<T>::kValue,
                   {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

template <typename T>
absl::Span<T> Array::values() {
  if (dtype_ != internal::DTypeOf<T>::kValue) return {};
  return {reinterpret_cast<T*>(data_.get()), static_cast<size_t>(shape_.num_elements())};
}

template <typename T>
absl::Span<const T> Array::values() const {
  return const_cast<Array*>(this)->values<T>();
}

}  // namespace armature

#endif  // ARMATURE_DATA_ARRAY_H_
