// Permutation: a pseudo-random order of [0, size) that is computed, not stored. Element i takes a few dozen
// operations and no memory, whatever the size.
//
// A Feistel network over pairs of digits (left, right), i = left * radix + right with radix =
// ceil(sqrt(size)); each round replaces (left, right) by (right, (left + Hash(key, round, right)) mod radix),
// which is one to one whatever the hash is. A result beyond the size is sent through again until it falls
// inside ("cycle walking"): as radix^2 exceeds size by little, that is rare.
//
// Reference: Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002 (generalised Feistel,
// and cycle walking); the hash is the finaliser of SplitMix64, Steele et al., "Fast Splittable Pseudorandom
// Number Generators", OOPSLA 2014, with Stafford's constants. Good statistics, no cryptography.
#ifndef ARMATURE_DATA_PERMUTATION_H_
#define ARMATURE_DATA_PERMUTATION_H_

#include <cstdint>

namespace armature {

// A value; cheap to make and copy.
class Permutation {
 public:
  // The order of (seed, stream): another one for each pair. size > 0.
  Permutation(int64_t size, uint64_t seed, uint64_t stream);

  // The element at `index`, in [0, size).
  int64_t operator[](int64_t index) const;

  int64_t size() const { return static_cast<int64_t>(size_); }

 private:
  uint64_t Encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t radix_;
  uint64_t key_;
};

}  // namespace armature

#endif  // ARMATURE_DATA_PERMUTATION_H_
