#include "armature/comm/reduce_kernels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/container/inlined_vector.h"
#include "armature/tensor/float16.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "comm/reduce_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace comm {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct AddOp {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};

struct MultiplyOp {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::Mul(a, b);
  }
};

struct OrOp {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::Or(a, b);
  }
};

struct AndOp {
  template <class D, class V>
  static HWY_INLINE V Apply(D, V a, V b) {
    return hn::And(a, b);
  }
};

template <class D, class V>
HWY_INLINE V KeepNan(D, V a, V b, V ordered) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    return hn::IfThenElse(hn::Or(hn::IsNaN(a), hn::IsNaN(b)), hn::Add(a, b), ordered);
  }
  return ordered;
}

struct MinOp {
  template <class D, class V>
  static HWY_INLINE V Apply(D d, V a, V b) {
    return KeepNan(d, a, b, hn::Min(a, b));
  }
};

struct MaxOp {
  template <class D, class V>
  static HWY_INLINE V Apply(D d, V a, V b) {
    return KeepNan(d, a, b, hn::Max(a, b));
  }
};

// The storage types that are combined as they lie in memory.
template <class Op, class T>
void Combine(const T* a, const T* b, T* out, size_t count) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(Op::Apply(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, out + i);
  for (; i < count; ++i)
    hn::StoreU(Op::Apply(one, hn::LoadU(one, a + i), hn::LoadU(one, b + i)), one, out + i);
}

// 64-bit and 8-bit lanes have no vector product.
template <class T>
void CombineProduct(const T* a, const T* b, T* out, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<uint64_t>(a[i]) * static_cast<uint64_t>(b[i]));
  }
}

template <class T>
void Divide(T* data, T divisor, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] /= divisor;
}

// How a 16-bit float becomes f32 lanes and back.
struct BFloat16Format {
  template <class D, class V16>
  static HWY_INLINE hn::Vec<D> Widen([[maybe_unused]] D d, V16 bits) {
    const hn::RebindToUnsigned<D> du;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
  }
  template <class D>
  static HWY_INLINE auto Narrow(D, hn::Vec<D> value) {
    const hn::RebindToUnsigned<D> du;
    const hn::Rebind<uint16_t, D> d16;
    const auto f = hn::BitCast(du, value);
    const auto lowest_kept = hn::And(hn::ShiftRight<16>(f), hn::Set(du, 1u));
    const auto rounded = hn::ShiftRight<16>(hn::Add(f, hn::Add(lowest_kept, hn::Set(du, 0x7FFFu))));
    const auto nan = hn::Or(hn::And(hn::ShiftRight<16>(f), hn::Set(du, 0x8000u)), hn::Set(du, 0x7FC0u));
    const auto is_nan = hn::Gt(hn::And(f, hn::Set(du, 0x7FFFFFFFu)), hn::Set(du, 0x7F800000u));
    // Values below 2^16 fit i32, which every target can narrow to u16.
    const hn::RebindToSigned<D> di;
    return hn::DemoteTo(d16, hn::BitCast(di, hn::IfThenElse(is_nan, nan, rounded)));
  }
  static float Widen(uint16_t bits) {
    BFloat16 value;
    value.bits = bits;
    return static_cast<float>(value);
  }
  static uint16_t Narrow(float value) { return BFloat16(value).bits; }
  static constexpr bool kVectors = true;
};

struct Float16Format {
  template <class D, class V16>
  static HWY_INLINE hn::Vec<D> Widen(D d, V16 bits) {
    const hn::Rebind<hwy::float16_t, D> d16;
    return hn::PromoteTo(d, hn::BitCast(d16, bits));
  }
  template <class D>
  static HWY_INLINE auto Narrow(D, hn::Vec<D> value) {
    const hn::Rebind<hwy::float16_t, D> d16;
    const hn::Rebind<uint16_t, D> du16;
    return hn::BitCast(du16, hn::DemoteTo(d16, value));
  }
  static float Widen(uint16_t bits) {
    Float16 value;
    value.bits = bits;
    return static_cast<float>(value);
  }
  static uint16_t Narrow(float value) { return Float16(value).bits; }
  // The baseline emulates the conversion, without its rounding.
  static constexpr bool kVectors = HWY_TARGET <= HWY_AVX2;
};

template <class Format>
void WidenAll(const uint16_t* source, float* out, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  size_t i = 0;
  if constexpr (Format::kVectors) {
    const size_t lanes = hn::Lanes(d);
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(Format::Widen(d, hn::LoadU(d16, source + i)), d, out + i);
  }
  for (; i < count; ++i) out[i] = Format::Widen(source[i]);
}

template <class Format>
void NarrowAll(const float* source, uint16_t* out, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  size_t i = 0;
  if constexpr (Format::kVectors) {
    const size_t lanes = hn::Lanes(d);
    for (; i + lanes <= count; i += lanes)
      hn::StoreU(Format::Narrow(d, hn::LoadU(d, source + i)), d16, out + i);
  }
  for (; i < count; ++i) out[i] = Format::Narrow(source[i]);
}

// accumulator op= source, in f32.
template <class Op, class Format>
void Accumulate(const uint16_t* source, float* accumulator, size_t count) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint16_t, decltype(d)> d16;
  const hn::CappedTag<float, 1> one;
  size_t i = 0;
  if constexpr (Format::kVectors) {
    const size_t lanes = hn::Lanes(d);
    for (; i + lanes <= count; i += lanes) {
      const auto value = Format::Widen(d, hn::LoadU(d16, source + i));
      hn::StoreU(Op::Apply(d, hn::LoadU(d, accumulator + i), value), d, accumulator + i);
    }
  }
  for (; i < count; ++i) {
    const float value = Format::Widen(source[i]);
    hn::StoreU(Op::Apply(one, hn::LoadU(one, accumulator + i), hn::Set(one, value)), one, accumulator + i);
  }
}

struct Tile {
  const void* const* sources;
  size_t num_sources;
  void* target;
  size_t count;
  bool average;
};

template <class Op, class T>
void CombineTwo(const T* left, const T* right, T* to, size_t count) {
  if constexpr (std::is_same<Op, MultiplyOp>() && (sizeof(T) == 1 || std::is_same<T, int64_t>())) {
    CombineProduct(left, right, to, count);
  } else {
    Combine<Op, T>(left, right, to, count);
  }
}

// How many of `n` > 1 sources the left half of the tree has: the largest power of two below n.
size_t LeftHalf(size_t n) {
  size_t half = 1;
  while (half * 2 < n) half *= 2;
  return half;
}

// Where the reduction of `n` sources lies: one source stays where it is, more go to `buffer`.
template <class Op, class T>
const T* ReduceTree(const void* const* sources, size_t n, T* buffer, size_t count) {
  if (n == 1) return static_cast<const T*>(sources[0]);
  const size_t half = LeftHalf(n);
  alignas(64) T right_buffer[8192 / sizeof(T)];
  const T* left = ReduceTree<Op>(sources, half, buffer, count);
  const T* right = ReduceTree<Op>(sources + half, n - half, right_buffer, count);
  CombineTwo<Op>(left, right, buffer, count);
  return buffer;
}

template <class Op, class T>
void ReduceAsStored(const Tile& tile) {
  T* out = static_cast<T*>(tile.target);
  const size_t half = LeftHalf(tile.num_sources);
  alignas(64) T left_buffer[8192 / sizeof(T)];
  alignas(64) T right_buffer[8192 / sizeof(T)];
  const T* left = ReduceTree<Op>(tile.sources, half, left_buffer, tile.count);
  const T* right = ReduceTree<Op>(tile.sources + half, tile.num_sources - half, right_buffer, tile.count);
  CombineTwo<Op>(left, right, out, tile.count);
  if constexpr (std::is_floating_point<T>()) {
    if (tile.average) Divide(out, static_cast<T>(tile.num_sources), tile.count);
  }
}

template <class Op, class Format>
void ReduceThroughFloat(const Tile& tile) {
  alignas(64) float accumulator[2048];
  WidenAll<Format>(static_cast<const uint16_t*>(tile.sources[0]), accumulator, tile.count);
  for (size_t s = 1; s < tile.num_sources; ++s) {
    Accumulate<Op, Format>(static_cast<const uint16_t*>(tile.sources[s]), accumulator, tile.count);
  }
  if (tile.average) Divide(accumulator, static_cast<float>(tile.num_sources), tile.count);
  NarrowAll<Format>(accumulator, static_cast<uint16_t*>(tile.target), tile.count);
}

template <class T>
void AverageIntegers(const Tile& tile) {
  uint64_t sum[1024];  // unsigned, so that it may wrap
  for (size_t i = 0; i < tile.count; ++i)
    sum[i] = static_cast<uint64_t>(static_cast<const T*>(tile.sources[0])[i]);
  for (size_t s = 1; s < tile.num_sources; ++s) {
    const T* source = static_cast<const T*>(tile.sources[s]);
    for (size_t i = 0; i < tile.count; ++i) sum[i] += static_cast<uint64_t>(source[i]);
  }
  const int64_t divisor = static_cast<int64_t>(tile.num_sources);
  T* out = static_cast<T*>(tile.target);
  for (size_t i = 0; i < tile.count; ++i) out[i] = static_cast<T>(static_cast<int64_t>(sum[i]) / divisor);
}

template <class T>
void ReduceNumbers(ReduceOp op, const Tile& tile) {
  switch (op) {
    case ReduceOp::kAvg:
      if constexpr (std::is_integral<T>()) return AverageIntegers<T>(tile);
      return ReduceAsStored<AddOp, T>(tile);
    case ReduceOp::kSum:
      return ReduceAsStored<AddOp, T>(tile);
    case ReduceOp::kMin:
      return ReduceAsStored<MinOp, T>(tile);
    case ReduceOp::kMax:
      return ReduceAsStored<MaxOp, T>(tile);
    case ReduceOp::kProd:
      return ReduceAsStored<MultiplyOp, T>(tile);
  }
}

template <class Format>
void ReduceHalves(ReduceOp op, const Tile& tile) {
  switch (op) {
    case ReduceOp::kAvg:
    case ReduceOp::kSum:
      return ReduceThroughFloat<AddOp, Format>(tile);
    case ReduceOp::kMin:
      return ReduceThroughFloat<MinOp, Format>(tile);
    case ReduceOp::kMax:
      return ReduceThroughFloat<MaxOp, Format>(tile);
    case ReduceOp::kProd:
      return ReduceThroughFloat<MultiplyOp, Format>(tile);
  }
}

void ReduceTile(DType dtype, ReduceOp op, const void* const* sources, size_t num_sources, void* target,
                size_t count) {
  const Tile tile = {sources, num_sources, target, count, op == ReduceOp::kAvg};
  switch (dtype) {
    case DType::kF32:
      return ReduceNumbers<float>(op, tile);
    case DType::kF64:
      return ReduceNumbers<double>(op, tile);
    case DType::kF16:
      return ReduceHalves<Float16Format>(op, tile);
    case DType::kBF16:
      return ReduceHalves<BFloat16Format>(op, tile);
    case DType::kI32:
      return ReduceNumbers<int32_t>(op, tile);
    case DType::kI64:
      return ReduceNumbers<int64_t>(op, tile);
    case DType::kU8:
      return ReduceNumbers<uint8_t>(op, tile);
    case DType::kBool:
      if (op == ReduceOp::kSum || op == ReduceOp::kMax) return ReduceAsStored<OrOp, uint8_t>(tile);
      return ReduceAsStored<AndOp, uint8_t>(tile);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace comm
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace comm {

HWY_EXPORT(ReduceTile);

namespace {

constexpr int64_t kTileElements = 1024;  // at most 8 KiB of any dtype

}  // namespace

void ReduceInto(DType dtype, ReduceOp op, absl::Span<const void* const> sources,
                absl::Span<void* const> targets, int64_t count) {
  if (sources.empty() || targets.empty()) return;
  const int64_t width = SizeOf(dtype);
  const size_t num_sources = sources.size();
  absl::InlinedVector<const void*, 16> at(num_sources);
  for (int64_t begin = 0; begin < count; begin += kTileElements) {
    const int64_t elements = std::min(kTileElements, count - begin);
    for (size_t s = 0; s < num_sources; ++s) at[s] = static_cast<const char*>(sources[s]) + begin * width;
    char* first = static_cast<char*>(targets[0]) + begin * width;
    if (num_sources > 1) {
      HWY_DYNAMIC_DISPATCH(ReduceTile)
      (dtype, op, at.data(), num_sources, first, static_cast<size_t>(elements));
    } else if (at[0] != first) {
      std::memcpy(first, at[0], static_cast<size_t>(elements * width));
    }
    for (void* target : targets.subspan(1)) {
      char* to = static_cast<char*>(target) + begin * width;
      if (to != first) std::memcpy(to, first, static_cast<size_t>(elements * width));
    }
  }
}

}  // namespace comm
}  // namespace armature
#endif  // HWY_ONCE
