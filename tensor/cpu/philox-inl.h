// RandomWords: the words that tensor/random.h gives to consecutive elements, a vector of Philox blocks at a
// time.
//
// Included once for each Highway target; see hwy/foreach_target.h.
#if defined(ARMATURE_TENSOR_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_TENSOR_CPU_PHILOX_INL_H_
#undef ARMATURE_TENSOR_CPU_PHILOX_INL_H_
#else
#define ARMATURE_TENSOR_CPU_PHILOX_INL_H_
#endif

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>

#include "armature/tensor/random.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A buffer for the words of `elements` elements, wherever in a block they begin.
constexpr int64_t RandomBufferSize(int64_t elements) { return elements + 4 + 8 * HWY_MAX_BYTES / 8; }

// Writes RandomBits(key, sample, element + i) to words[element % 4 + i] for i in [0, count). `words` has
// RandomBufferSize(count) words, and what lies around those is overwritten too.
//
#if HWY_TARGET == HWY_SCALAR
inline void RandomWords(const RandomKey& key, uint64_t sample, uint64_t element, int64_t count,
                        uint32_t* words) {
  const uint64_t first = element / 4, blocks = (element % 4 + count + 3) / 4;
  for (uint64_t block = 0; block < blocks; ++block) {
    const std::array<uint32_t, 4> values = RandomBlock(key, sample, first + block);
    std::copy(values.begin(), values.end(), words + 4 * block);
  }
}
#else
// The counters of a vector of blocks: a lane of 64 bits holds a word of one block in its lower half. Products
// have both halves; what lies above a word is ignored by the next product.
template <class D>
struct PhiloxCounters {
  hn::Vec<D> c0, c1, c2, c3;

  HWY_INLINE PhiloxCounters(D d, uint64_t sample, uint64_t first_block) {
    c0 = hn::Add(hn::Iota(d, 0), hn::Set(d, first_block));
    c1 = hn::ShiftRight<32>(c0);
    c2 = hn::Set(d, sample);
    c3 = hn::Set(d, sample >> 32);
  }

  HWY_INLINE void Round(D, hn::Vec<D> key0, hn::Vec<D> key1) {
    const hn::Repartition<uint32_t, D> d32;
    const auto a = hn::MulEven(hn::BitCast(d32, c0), hn::Set(d32, 0xD2511F53u));
    const auto b = hn::MulEven(hn::BitCast(d32, c2), hn::Set(d32, 0xCD9E8D57u));
    c0 = hn::Xor3(hn::ShiftRight<32>(b), c1, key0);
    c1 = b;
    c2 = hn::Xor3(hn::ShiftRight<32>(a), c3, key1);
    c3 = a;
  }

  HWY_INLINE void Store(D d, uint32_t* words) const {
    const auto lower = hn::Set(d, 0xFFFFFFFFu);
    const auto words01 = hn::Or(hn::And(c0, lower), hn::ShiftLeft<32>(c1));
    const auto words23 = hn::Or(hn::And(c2, lower), hn::ShiftLeft<32>(c3));
    hn::StoreInterleaved2(words01, words23, d, reinterpret_cast<uint64_t*>(words));
  }
};

// Two vectors at a time: each waits for its products, and the keys are shared.
inline void RandomWords(const RandomKey& key, uint64_t sample, uint64_t element, int64_t count,
                        uint32_t* words) {
  const hn::ScalableTag<uint64_t> d;
  using Counters = PhiloxCounters<std::decay_t<decltype(d)> >;
  const int64_t n = hn::Lanes(d);
  const uint64_t first = element / 4, blocks = (element % 4 + count + 3) / 4;
  for (uint64_t block = 0; block < blocks; block += 2 * n) {
    Counters low(d, sample, first + block), high(d, sample, first + block + n);
    uint32_t key0 = key.words[0], key1 = key.words[1];
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const auto v_key0 = hn::Set(d, key0), v_key1 = hn::Set(d, key1);
      low.Round(d, v_key0, v_key1);
      high.Round(d, v_key0, v_key1);
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    low.Store(d, words + 4 * block);
    high.Store(d, words + 4 * (block + n));
  }
}
#endif

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_TENSOR_CPU_PHILOX_INL_H_
