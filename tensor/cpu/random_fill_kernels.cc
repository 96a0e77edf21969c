#include "armature/tensor/cpu/random_fill_kernels.h"

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"
#include "armature/tensor/cpu/random_runs.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/random_fill_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "hwy/contrib/math/math-inl.h"
#include "armature/tensor/cpu/lanes-inl.h"
#include "armature/tensor/cpu/philox-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kRun = 1024;  // elements at a time
constexpr int64_t kBuffer = RandomBufferSize(kRun);

// z[i] = UniformFloat(words[i]).
HWY_INLINE void UniformFromWords(const uint32_t* words, int64_t count, float* z) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::RebindToSigned<decltype(d)> di;
  for (int64_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto upper = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words + i)));
    hn::StoreU(hn::Mul(hn::ConvertTo(d, upper), hn::Set(d, 0x1p-24f)), d, z + i);
  }
}

// Box-Muller over pairs of words, from the first word of a block on: z[i] = NormalFloat of word i's element.
HWY_INLINE void NormalFromWords(const uint32_t* words, int64_t count, float* z) {
  const hn::ScalableTag<double> d;
  const hn::RebindToUnsigned<decltype(d)> du;
  const hn::Rebind<uint32_t, decltype(d)> d_word;
  const hn::Rebind<float, decltype(d)> d32;
  // A word in the mantissa of 2^52 is that number plus the word.
  const auto exponent = hn::Set(du, 0x4330000000000000u);
  const auto unit = [&](auto word) HWY_ATTR {
    const auto shifted = hn::BitCast(d, hn::Or(hn::PromoteTo(du, word), exponent));
    return hn::Mul(hn::Sub(shifted, hn::Set(d, 0x1p52)), hn::Set(d, 0x1p-32));
  };
  for (int64_t i = 0; i < count; i += 2 * static_cast<int64_t>(hn::Lanes(d))) {
    hn::Vec<decltype(d_word)> first, second;
    hn::LoadInterleaved2(d_word, words + i, first, second);
    const auto u = hn::Sub(hn::Set(d, 1.0), unit(first));
    const auto radius = hn::Sqrt(hn::Mul(hn::Set(d, -2.0), hn::Log(d, u)));
    const auto angle = hn::Mul(hn::Set(d, 6.283185307179586), unit(second));
    const auto even = hn::DemoteTo(d32, hn::Mul(radius, hn::Cos(d, angle)));
    const auto odd = hn::DemoteTo(d32, hn::Mul(radius, hn::Sin(d, angle)));
    hn::StoreInterleaved2(even, odd, d32, z + i);
  }
}

template <typename T>
HWY_INLINE void RandomFillRange(const RandomFillArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const auto offset = hn::Set(d, static_cast<float>(args.offset));
  const auto scale = hn::Set(d, static_cast<float>(args.scale));
  uint32_t words[kBuffer];
  float z[kBuffer];
  ForRandomRuns(args.region, begin, end, kRun,
                [&](int64_t at, int64_t count, int64_t /*sample*/, int64_t element) HWY_ATTR {
                  const int64_t skipped = element % 4;
                  RandomWords(args.region.key, /*sample=*/0, element, count, words);
                  if (args.normal) {
                    NormalFromWords(words, skipped + count, z);
                  } else {
                    UniformFromWords(words, skipped + count, z);
                  }
                  T* y = static_cast<T*>(args.y) + at;
                  ForLanes(d, count, [&](int64_t i, auto lanes) HWY_ATTR {
                    lanes.Store(hn::MulAdd(scale, lanes.Load(d, z + skipped + i), offset), d, y + i);
                  });
                });
}

void RandomFillF32(const RandomFillArgs& args, int64_t begin, int64_t end) {
  RandomFillRange<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(RandomFillF32);

absl::Status RandomFill(Stream& stream, const RandomFillArgs& args) {
  const int64_t count = args.region.rows * args.region.cols;
  CpuStream::Team(stream).ParallelFor(count, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RandomFillF32)(args, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
