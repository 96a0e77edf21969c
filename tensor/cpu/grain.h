// How much work a thread must get before it is worth waking: less than that stays on the caller's thread.
#ifndef ARMATURE_TENSOR_CPU_GRAIN_H_
#define ARMATURE_TENSOR_CPU_GRAIN_H_

#include <algorithm>
#include <cstdint>

#include "armature/base/thread_team.h"

namespace armature {
namespace cpu {

// Elements of a pass over memory: some microseconds.
constexpr int64_t kElementGrain = 16384;

// The same in units of `elements` each (rows, groups of columns).
inline int64_t GrainOf(int64_t elements) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, elements));
}

// Columns are dealt out to threads in groups of a cache line, so that no line is written by two.
constexpr int64_t kColumnGroup = 16;

// Threads that are worth waking for so many multiply-adds: one for each million.
inline int64_t UsefulThreads(const ThreadTeam& team, double multiply_adds) {
  return static_cast<int64_t>(std::clamp<double>(multiply_adds / (1 << 20), 1, team.size()));
}

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_GRAIN_H_
