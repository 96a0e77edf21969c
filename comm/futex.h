// Sleeping until a 32-bit word changes, among threads and among processes that share the word's memory.
#ifndef ARMATURE_COMM_FUTEX_H_
#define ARMATURE_COMM_FUTEX_H_

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace armature {
namespace comm {

// Returns once `word` is no longer `expected`, after FutexWakeAll, after `timeout`, or for no reason.
void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, absl::Duration timeout);

void FutexWakeAll(const std::atomic<uint32_t>& word);

// Tells the processor that this is a spinning loop.
inline void SpinPause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_FUTEX_H_
