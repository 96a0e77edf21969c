#include "armature/base/clock.h"

#include <atomic>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

const absl::Duration kTick = absl::Seconds(10);

TEST(RealClock, GoesOn) {
  RealClock clock;
  const absl::Time start = clock.Now();
  clock.SleepFor(absl::Milliseconds(2));
  EXPECT_GE(clock.Now(), start + absl::Milliseconds(2));
}

TEST(RealClock, SleepingUntilThePastReturnsAtOnce) {
  RealClock clock;
  clock.SleepUntil(absl::InfinitePast());
  clock.SleepFor(-absl::InfiniteDuration());
}

TEST(RealClock, WaitSeesItsDeadline) {
  RealClock clock;
  std::mutex mutex;
  std::condition_variable wake;
  std::unique_lock<std::mutex> lock(mutex);
  const absl::Time deadline = clock.Now() + absl::Milliseconds(2);
  while (clock.WaitUntil(wake, lock, deadline)) {
  }
  EXPECT_GE(clock.Now(), deadline);
  EXPECT_TRUE(lock.owns_lock());
}

// Waits without a deadline until another thread says so.
void ExpectNotificationEndsAWait(Clock& clock) {
  std::mutex mutex;
  std::condition_variable wake;
  bool ready = false;
  std::thread other([&] {
    std::lock_guard<std::mutex> lock(mutex);
    ready = true;
    wake.notify_all();
  });
  std::unique_lock<std::mutex> lock(mutex);
  while (!ready) EXPECT_TRUE(clock.WaitUntil(wake, lock, absl::InfiniteFuture()));
  lock.unlock();
  other.join();
}

TEST(RealClock, NotificationEndsAWait) {
  RealClock clock;
  ExpectNotificationEndsAWait(clock);
}

TEST(FakeClock, NotificationEndsAWait) {
  FakeClock clock(absl::UnixEpoch());
  ExpectNotificationEndsAWait(clock);
}

TEST(FakeClock, StandsStillUntilAdvanced) {
  FakeClock clock(absl::UnixEpoch());
  EXPECT_EQ(clock.Now(), absl::UnixEpoch());
  clock.Advance(kTick);
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + kTick);
  clock.Advance(-kTick);
  EXPECT_EQ(clock.Now(), absl::UnixEpoch() + kTick);
}

TEST(FakeClock, WakesOnlySleepersWhoseTimeHasCome) {
  FakeClock clock(absl::UnixEpoch());
  std::atomic<bool> late_is_awake{false};
  std::thread early([&] { clock.SleepFor(kTick); });
  std::thread late([&] {
    clock.SleepUntil(absl::UnixEpoch() + 2 * kTick);
    late_is_awake = true;
  });
  clock.WaitForSleepers(2);
  clock.Advance(kTick);
  early.join();
  EXPECT_FALSE(late_is_awake);
  clock.Advance(kTick);
  late.join();
}

TEST(FakeClock, AdvancePastTheDeadlineEndsAWait) {
  FakeClock clock(absl::UnixEpoch());
  std::atomic<bool> waiting{false};
  std::thread waiter([&] {
    std::mutex mutex;
    std::condition_variable wake;
    std::unique_lock<std::mutex> lock(mutex);
    waiting = true;
    while (clock.WaitUntil(wake, lock, absl::UnixEpoch() + kTick)) {
    }
  });
  while (!waiting) std::this_thread::yield();
  clock.Advance(kTick);
  waiter.join();
}

}  // namespace
}  // namespace armature
