#include "armature/base/cancellation.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::Eq;

constexpr absl::StatusCode kAborted = absl::StatusCode::kAborted;

TEST(Cancellation, TheFirstReasonWins) {
  CancellationSource source;
  const CancellationToken token = source.token();
  EXPECT_FALSE(token.cancelled());
  EXPECT_THAT(token.status(), IsOk());
  EXPECT_TRUE(source.Cancel(absl::AbortedError("first")));
  EXPECT_FALSE(source.Cancel(absl::InternalError("second")));
  EXPECT_TRUE(token.cancelled());
  EXPECT_THAT(token.status(), StatusIs(kAborted, Eq("first")));
}

TEST(Cancellation, AnOkReasonBecomesCancelled) {
  CancellationSource source;
  source.Cancel(absl::OkStatus());
  EXPECT_THAT(source.token().status(), StatusIs(absl::StatusCode::kCancelled));
}

TEST(Cancellation, TokensOutliveTheirSource) {
  CancellationToken token;
  {
    CancellationSource source;
    token = source.token();
    source.Cancel(absl::AbortedError("gone"));
  }
  EXPECT_THAT(token.status(), StatusIs(kAborted, Eq("gone")));
}

TEST(Cancellation, ADefaultTokenIsNeverCancelled) {
  const CancellationToken token;
  FakeClock clock(absl::UnixEpoch());
  EXPECT_FALSE(token.cancelled());
  EXPECT_THAT(token.WaitUntil(clock, absl::UnixEpoch()), IsOk());
  CancellationCallback callback(token, [](const absl::Status&) { ADD_FAILURE(); });
}

TEST(Cancellation, WaitReturnsOkAtTheDeadline) {
  CancellationSource source;
  RealClock clock;
  EXPECT_THAT(source.token().WaitUntil(clock, clock.Now() + absl::Milliseconds(2)), IsOk());
}

TEST(Cancellation, EndsAWait) {
  for (int round = 0; round < 50; ++round) {
    CancellationSource source;
    std::thread canceller([&] { source.Cancel(absl::AbortedError("stop")); });
    RealClock clock;
    EXPECT_THAT(source.token().WaitUntil(clock, absl::InfiniteFuture()), StatusIs(kAborted));
    canceller.join();
  }
}

TEST(Cancellation, OfManyThreadsOneWinsAndAllSeeItsReason) {
  CancellationSource source;
  std::atomic<int> winners{0};
  std::atomic<int> winner{-1};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      if (source.Cancel(absl::AbortedError(absl::StrCat(i)))) {
        ++winners;
        winner = i;
      }
      EXPECT_FALSE(source.token().status().ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(winners, 1);
  EXPECT_THAT(source.token().status(), StatusIs(kAborted, absl::StrCat(winner.load())));
}

TEST(CancellationCallback, RunsOnceWithTheReason) {
  CancellationSource source;
  int runs = 0;
  CancellationCallback callback(source.token(), [&](const absl::Status& why) {
    EXPECT_THAT(why, StatusIs(kAborted));
    ++runs;
  });
  source.Cancel(absl::AbortedError("stop"));
  source.Cancel(absl::AbortedError("again"));
  EXPECT_EQ(runs, 1);
}

TEST(CancellationCallback, RunsAtOnceIfAlreadyCancelled) {
  CancellationSource source;
  source.Cancel(absl::AbortedError("stop"));
  int runs = 0;
  CancellationCallback callback(source.token(), [&](const absl::Status&) { ++runs; });
  EXPECT_EQ(runs, 1);
}

TEST(CancellationCallback, DoesNotRunOnceDestroyed) {
  CancellationSource source;
  {
    CancellationCallback callback(source.token(), [](const absl::Status&) { ADD_FAILURE(); });
  }
  source.Cancel(absl::AbortedError("stop"));
}

TEST(CancellationCallback, MayDestroyItselfAndItsPeers) {
  CancellationSource source;
  std::unique_ptr<CancellationCallback> peer;
  std::unique_ptr<CancellationCallback> own;
  own = std::make_unique<CancellationCallback>(source.token(), [&](const absl::Status&) {
    peer.reset();
    own.reset();
  });
  peer = std::make_unique<CancellationCallback>(source.token(), [](const absl::Status&) { ADD_FAILURE(); });
  source.Cancel(absl::AbortedError("stop"));
  EXPECT_EQ(own, nullptr);
}

TEST(CancellationCallback, TheDestructorWaitsForARunningFunction) {
  for (int round = 0; round < 200; ++round) {
    CancellationSource source;
    // Not atomic: only a destructor that waits makes the read below safe.
    int runs = 0;
    auto callback =
        std::make_unique<CancellationCallback>(source.token(), [&](const absl::Status&) { ++runs; });
    std::thread canceller([&] { source.Cancel(absl::AbortedError("stop")); });
    if (round % 2 == 0) std::this_thread::yield();
    callback.reset();
    EXPECT_LE(runs, 1);
    canceller.join();
  }
}

}  // namespace
}  // namespace armature
