#include "armature/data/permutation.h"

#include <cmath>

namespace armature {
namespace {

constexpr int kRounds = 8;
constexpr uint64_t kGolden = 0x9E3779B97F4A7C15;

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The smallest radix with radix * radix >= size.
uint64_t CeilSqrt(uint64_t size) {
  uint64_t radix = static_cast<uint64_t>(std::sqrt(static_cast<double>(size)));
  while (radix * radix >= size) --radix;
  while (radix * radix < size) ++radix;
  return radix;
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t stream)
    : size_(static_cast<uint64_t>(size)),
      radix_(CeilSqrt(size_)),
      key_(Mix(Mix(seed + kGolden) ^ (stream * kGolden + 1))) {}

uint64_t Permutation::Encrypt(uint64_t value) const {
  uint64_t left = value / radix_;
  uint64_t right = value % radix_;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t next = (left + Mix(key_ + kGolden * (right * kRounds + round + 1)) % radix_) % radix_;
    left = right;
    right = next;
  }
  return left * radix_ + right;
}

int64_t Permutation::operator[](int64_t index) const {
  uint64_t value = static_cast<uint64_t>(index);
  do {
    value = Encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

}  // namespace armature
