#include "armature/comm/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace armature {
namespace comm {

void FutexWait(const std::atomic<uint32_t>& word, uint32_t expected, absl::Duration timeout) {
  static_assert(sizeof(word) == sizeof(uint32_t), "a futex is the bare word");
  if (timeout <= absl::ZeroDuration()) return;
  const timespec limit = absl::ToTimespec(timeout);
  syscall(SYS_futex, &word, FUTEX_WAIT, expected, timeout == absl::InfiniteDuration() ? nullptr : &limit,
          nullptr, 0);
}

void FutexWakeAll(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace comm
}  // namespace armature
