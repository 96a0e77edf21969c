#include "armature/tensor/random.h"

#include <cmath>

namespace armature {

RandomKey MakeRandomKey(uint64_t seed, RandomPurpose purpose, uint64_t step, uint64_t layer) {
  // Two passes of Philox spread (seed, purpose, step, layer) over the 64 bits of the key.
  const std::array<uint32_t, 4> first = Philox(
      {static_cast<uint32_t>(layer), static_cast<uint32_t>(layer >> 32), static_cast<uint32_t>(purpose), 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  const std::array<uint32_t, 4> second =
      Philox({first[0], first[1], static_cast<uint32_t>(step), static_cast<uint32_t>(step >> 32)},
             {first[2], first[3]});
  return RandomKey{{second[0], second[1]}};
}

uint64_t StableHash(absl::string_view name) {
  uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
  for (char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

float NormalFloat(const RandomKey& key, uint64_t element) {
  const std::array<uint32_t, 4> block = RandomBlock(key, 0, element / 4);
  const int pair = element % 4 / 2 * 2;
  // 1 - u lies in (0, 1], so that the logarithm is finite.
  const double radius = std::sqrt(-2.0 * std::log(1.0 - block[pair] * 0x1p-32));
  const double angle = 6.283185307179586 * (block[pair + 1] * 0x1p-32);
  return static_cast<float>(radius * (element % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

}  // namespace armature
