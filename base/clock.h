// Clock: the time, and waiting for it. Deadlines and back-offs take a Clock, so that a test can advance time
// by hand instead of waiting.
//
//   FakeClock clock(absl::UnixEpoch());
//   std::thread worker([&] { clock.SleepUntil(absl::UnixEpoch() + absl::Hours(1)); });
//   clock.WaitForSleepers(1);
//   clock.Advance(absl::Hours(1));   // the worker goes on
#ifndef ARMATURE_BASE_CLOCK_H_
#define ARMATURE_BASE_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace armature {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() = 0;

  // Returns once Now() >= time; at once if that is past already.
  virtual void SleepUntil(absl::Time time) = 0;
  void SleepFor(absl::Duration duration) { SleepUntil(Now() + duration); }

  // Waits on `wake` with `lock` held, as condition variables do, until it is notified or Now() >= deadline.
  // Returns false if the deadline has passed. Wakes spuriously: call it in a loop around the condition.
  virtual bool WaitUntil(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                         absl::Time deadline) = 0;
};

// The machine's clock. Stateless: make one wherever one is needed.
class RealClock final : public Clock {
 public:
  absl::Time Now() override;
  void SleepUntil(absl::Time time) override;
  bool WaitUntil(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                 absl::Time deadline) override;
};

// A clock that stands still until it is advanced.
class FakeClock final : public Clock {
 public:
  explicit FakeClock(absl::Time start) : now_(start) {}

  absl::Time Now() override;
  void SleepUntil(absl::Time time) override;
  // Looks at the time each millisecond of real time: Advance need not know who waits on what.
  bool WaitUntil(std::condition_variable& wake, std::unique_lock<std::mutex>& lock,
                 absl::Time deadline) override;

  // Moves time on and wakes those whose time has come. A negative duration changes nothing.
  void Advance(absl::Duration duration);
  // Returns once at least `count` threads are in SleepUntil.
  void WaitForSleepers(int count);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Time now_;
  int sleepers_ = 0;
};

}  // namespace armature

#endif  // ARMATURE_BASE_CLOCK_H_
