#include "armature/base/clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace armature {

absl::Time RealClock::Now() { return absl::Now(); }

void RealClock::SleepUntil(absl::Time time) {
  for (absl::Time now = Now(); now < time; now = Now()) absl::SleepFor(time - now);
}

bool RealClock::WaitUntil(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                          absl::Time deadline) {
  const absl::Duration left = deadline - Now();
  if (left <= absl::ZeroDuration()) return false;
  // A far deadline would overflow the standard library's arithmetic; waking early is allowed.
  wake.wait_for(lock, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
  return Now() < deadline;
}

absl::Time FakeClock::Now() {
  std::lock_guard<std::mutex> lock(mutex_);
  return now_;
}

void FakeClock::SleepUntil(absl::Time time) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (now_ >= time) return;
  ++sleepers_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return now_ >= time; });
  --sleepers_;
}

bool FakeClock::WaitUntil(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                          absl::Time deadline) {
  if (Now() >= deadline) return false;
  wake.wait_for(lock, std::chrono::milliseconds(1));
  return Now() < deadline;
}

void FakeClock::Advance(absl::Duration duration) {
  std::lock_guard<std::mutex> lock(mutex_);
  now_ += std::max(duration, absl::ZeroDuration());
  changed_.notify_all();
}

void FakeClock::WaitForSleepers(int count) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return sleepers_ >= count; });
}

}  // namespace armature
