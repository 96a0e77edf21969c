#include "armature/tensor/cpu/cast_kernels.h"

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"
#include "armature/tensor/float16.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/cast_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The four conversions on the bits of 32-bit lanes: a 16-bit float lies in a lane's lower half. Each is the
// vector form of the constructor or operator of tensor/float16.h.

template <class D, class V = hn::Vec<D>>
HWY_INLINE V ToBFloat16Bits(D d, V f) {
  const V lowest_kept = hn::And(hn::ShiftRight<16>(f), hn::Set(d, 1u));
  const V rounded = hn::ShiftRight<16>(hn::Add(f, hn::Add(lowest_kept, hn::Set(d, 0x7FFFu))));
  const V nan = hn::Or(hn::And(hn::ShiftRight<16>(f), hn::Set(d, 0x8000u)), hn::Set(d, 0x7FC0u));
  const auto is_nan = hn::Gt(hn::And(f, hn::Set(d, 0x7FFFFFFFu)), hn::Set(d, 0x7F800000u));
  return hn::IfThenElse(is_nan, nan, rounded);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V FromBFloat16Bits(D, V bits) {
  return hn::ShiftLeft<16>(bits);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V ToFloat16Bits(D d, V f) {
  const hn::RebindToFloat<D> df;
  const V magnitude = hn::And(f, hn::Set(d, 0x7FFFFFFFu));
  const V sign = hn::And(hn::ShiftRight<16>(f), hn::Set(d, 0x8000u));
  const V lowest_kept = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1u));
  const V rounded = hn::Add(magnitude, hn::Add(lowest_kept, hn::Set(d, 0x0FFFu)));
  const V normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(d, 0x38000000u)));
  // Adding 0.5 leaves a subnormal's multiple of 2^-24 in the sum's last bits, rounded.
  const V sum = hn::BitCast(d, hn::Add(hn::BitCast(df, magnitude), hn::Set(df, 0.5f)));
  const V subnormal = hn::Sub(sum, hn::Set(d, 0x3F000000u));
  V bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(d, 0x38800000u)), subnormal, normal);
  bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x477FEFFFu)), hn::Set(d, 0x7C00u), bits);
  bits = hn::IfThenElse(hn::Gt(magnitude, hn::Set(d, 0x7F800000u)), hn::Set(d, 0x7E00u), bits);
  return hn::Or(sign, bits);
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V FromFloat16Bits(D d, V bits) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToFloat<D> df;
  const V sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(d, 0x8000u)));
  const V exponent = hn::And(bits, hn::Set(d, 0x7C00u)), mantissa = hn::And(bits, hn::Set(d, 0x3FFu));
  const V offset = hn::IfThenElse(hn::Eq(exponent, hn::Set(d, 0x7C00u)), hn::Set(d, 224u << 23),
                                  hn::Set(d, 112u << 23));  // 31 becomes 255, others keep their value
  const V normal = hn::Add(hn::ShiftLeft<13>(hn::Or(exponent, mantissa)), offset);
  const auto small = hn::Mul(hn::ConvertTo(df, hn::BitCast(di, mantissa)), hn::Set(df, 0x1p-24f));
  return hn::Or(sign, hn::IfThenElse(hn::Eq(exponent, hn::Zero(d)), hn::BitCast(d, small), normal));
}

// y[i] = convert(x[i]) on bits; the last elements go through a padded copy.
template <typename From, typename To, class Convert>
HWY_INLINE void CastBits(const void* from, void* to, int64_t begin, int64_t end, const Convert& convert) {
  const hn::ScalableTag<uint32_t> d;
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  const int64_t n = hn::Lanes(d);
  const auto convert_vector = [&](const From* in, To* out) HWY_ATTR {
    const hn::Rebind<From, decltype(d)> d_from;
    const hn::Rebind<To, decltype(d)> d_to;
    if constexpr (sizeof(From) == 2) {
      hn::StoreU(convert(d, hn::PromoteTo(d, hn::LoadU(d_from, in))), d_to, out);
    } else {
      hn::StoreU(hn::TruncateTo(d_to, convert(d, hn::LoadU(d_from, in))), d_to, out);
    }
  };
  int64_t i = begin;
  for (; i + n <= end; i += n) convert_vector(x + i, y + i);
  if (i < end) {
    From in[hn::MaxLanes(d)] = {};
    To out[hn::MaxLanes(d)];
    for (int64_t j = 0; j < end - i; ++j) in[j] = x[i + j];
    convert_vector(in, out);
    for (int64_t j = 0; j < end - i; ++j) y[i + j] = out[j];
  }
}

void FloatToBFloat16(const void* x, void* y, int64_t begin, int64_t end) {
  CastBits<uint32_t, uint16_t>(x, y, begin, end,
                               [](auto d, auto v) HWY_ATTR { return ToBFloat16Bits(d, v); });
}
void BFloat16ToFloat(const void* x, void* y, int64_t begin, int64_t end) {
  CastBits<uint16_t, uint32_t>(x, y, begin, end,
                               [](auto d, auto v) HWY_ATTR { return FromBFloat16Bits(d, v); });
}
void FloatToFloat16(const void* x, void* y, int64_t begin, int64_t end) {
  CastBits<uint32_t, uint16_t>(x, y, begin, end, [](auto d, auto v) HWY_ATTR { return ToFloat16Bits(d, v); });
}
void Float16ToFloat(const void* x, void* y, int64_t begin, int64_t end) {
  CastBits<uint16_t, uint32_t>(x, y, begin, end,
                               [](auto d, auto v) HWY_ATTR { return FromFloat16Bits(d, v); });
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {
namespace {

HWY_EXPORT(FloatToBFloat16);
HWY_EXPORT(BFloat16ToFloat);
HWY_EXPORT(FloatToFloat16);
HWY_EXPORT(Float16ToFloat);

using CastRange = void (*)(const void* x, void* y, int64_t begin, int64_t end);

// Null for a pair that is not here.
CastRange FindCast(DType from, DType to) {
  if (from == DType::kF32 && to == DType::kBF16) return HWY_DYNAMIC_DISPATCH(FloatToBFloat16);
  if (from == DType::kBF16 && to == DType::kF32) return HWY_DYNAMIC_DISPATCH(BFloat16ToFloat);
  if (from == DType::kF32 && to == DType::kF16) return HWY_DYNAMIC_DISPATCH(FloatToFloat16);
  if (from == DType::kF16 && to == DType::kF32) return HWY_DYNAMIC_DISPATCH(Float16ToFloat);
  return nullptr;
}

}  // namespace

bool CanCast(const CastArgs& args) { return FindCast(args.from, args.to) != nullptr; }

absl::Status Cast(Stream& stream, const CastArgs& args) {
  const CastRange cast = FindCast(args.from, args.to);
  CpuStream::Team(stream).ParallelFor(args.count, kElementGrain,
                                      [&](int64_t begin, int64_t end) { cast(args.x, args.y, begin, end); });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
