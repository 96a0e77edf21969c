// Counter-based random numbers: the number that an element gets is a function of what it is, not of who
// computes it or when. So dropout masks and initial weights do not depend on ranks, microbatches or threads.
//
//   RandomKey key = MakeRandomKey(seed, RandomPurpose::kDropout, step, layer);
//   uint32_t bits = RandomBits(key, /*sample=*/global_sample_index, /*element=*/index_in_the_sample);
//
// Element e of sample s is word e % 4 of Philox(counter = (e / 4, s), key); a vector kernel computes four
// elements a call. Weights use sample 0 and the element's index in the whole weight.
//
// Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011):
// Philox-4x32-10.
#ifndef ARMATURE_TENSOR_RANDOM_H_
#define ARMATURE_TENSOR_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace armature {

// Streams that must never share numbers.
enum class RandomPurpose : uint32_t { kInitialize = 1, kDropout = 2, kSampling = 3 };

// Philox-4x32-10.
constexpr std::array<uint32_t, 4> Philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * counter[0];
    const uint64_t b = uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(b),
               static_cast<uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

struct RandomKey {
  std::array<uint32_t, 2> words = {0, 0};
};

// `layer` is any stable number of the place where the numbers are used, `step` of the time.
RandomKey MakeRandomKey(uint64_t seed, RandomPurpose purpose, uint64_t step, uint64_t layer);

// A number for a name, the same on every machine: the `layer` of a parameter's initial values.
uint64_t StableHash(absl::string_view name);

// Elements 4 * block ... 4 * block + 3 of a sample.
inline std::array<uint32_t, 4> RandomBlock(const RandomKey& key, uint64_t sample, uint64_t block) {
  return Philox({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32),
                 static_cast<uint32_t>(sample), static_cast<uint32_t>(sample >> 32)},
                key.words);
}

inline uint32_t RandomBits(const RandomKey& key, uint64_t sample, uint64_t element) {
  return RandomBlock(key, sample, element / 4)[element % 4];
}

// In [0, 1): the upper 24 bits, so that every value is exact in f32.
inline float UniformFloat(uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-24f; }

// Element `element` of a standard normal stream (Box-Muller over the element's pair of words).
float NormalFloat(const RandomKey& key, uint64_t element);

// The part of a tensor [samples, rows, cols] that a rank holds: which elements of which samples its memory
// shows. Local element (s, r, c) is element (row_offset + r) * global_cols + col_offset + c of sample
// first_sample + s.
struct RandomRegion {
  RandomKey key;
  int64_t first_sample = 0;
  int64_t rows = 1;  // per sample, local
  int64_t cols = 1;  // local
  int64_t row_offset = 0;
  int64_t col_offset = 0;
  int64_t global_cols = 1;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_RANDOM_H_
