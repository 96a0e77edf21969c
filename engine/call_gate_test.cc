#include "armature/engine/call_gate.h"

#include <atomic>
#include <thread>
#include <utility>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::HasSubstr;
using Purpose = CallGate::Purpose;

constexpr Purpose kAll[] = {Purpose::kCompute, Purpose::kAccess, Purpose::kRestore};

TEST(CallGate, LetsOneCallInAtATime) {
  CallGate gate;
  for (const Purpose inside : kAll) {
    ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(inside));
    for (const Purpose second : kAll) {
      EXPECT_THAT(gate.Enter(second),
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another call")));
    }
  }
  EXPECT_THAT(gate.Enter(Purpose::kCompute), IsOk());
}

TEST(CallGate, OpensOnceWhenACallWasMoved) {
  CallGate gate;
  {
    ASSERT_OK_AND_ASSIGN(CallGate::Call first, gate.Enter(Purpose::kCompute));
    const CallGate::Call second = std::move(first);
    EXPECT_THAT(gate.Enter(Purpose::kCompute), StatusIs(absl::StatusCode::kFailedPrecondition));
  }
  EXPECT_THAT(gate.Enter(Purpose::kCompute), IsOk());
}

TEST(CallGate, AFailedOneLetsOnlyARestoreInUntilItIsMended) {
  CallGate gate;
  {
    ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kCompute));
    gate.Fail(absl::DataLossError("half an update"));
    gate.Fail(absl::InternalError("what followed from it"));
  }
  EXPECT_THAT(gate.Enter(Purpose::kCompute), StatusIs(absl::StatusCode::kDataLoss, "half an update"));
  EXPECT_THAT(gate.Enter(Purpose::kAccess),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("half an update")));
  {
    ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kRestore));  // does not succeed
  }
  EXPECT_THAT(gate.Enter(Purpose::kCompute), StatusIs(absl::StatusCode::kDataLoss));
  {
    ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kRestore));
    gate.Mend();
  }
  for (const Purpose purpose : kAll) EXPECT_THAT(gate.Enter(purpose), IsOk());
}

TEST(CallGate, CancelReachesOnlyTheCallThatIsIn) {
  CallGate gate;
  gate.Cancel(absl::CancelledError("too early"));
  CancellationToken first;
  {
    ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kCompute));
    first = call.token();
    EXPECT_THAT(first.status(), IsOk());
    gate.Cancel(absl::CancelledError("why"));
    EXPECT_THAT(first.status(), StatusIs(absl::StatusCode::kCancelled, "why"));
  }
  ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kCompute));
  EXPECT_THAT(call.token().status(), IsOk());
}

TEST(CallGate, WhoIsToldOfACancellationMayCallTheGate) {
  CallGate gate;
  ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kCompute));
  CancellationCallback told(call.token(), [&](const absl::Status&) { gate.RequestStop(); });
  gate.Cancel(absl::CancelledError("why"));
  EXPECT_TRUE(call.stop_requested());
}

TEST(CallGate, ARequestToStopIsNotRemembered) {
  CallGate gate;
  gate.RequestStop();
  {
    ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kCompute));
    EXPECT_FALSE(call.stop_requested());
    gate.RequestStop();
    EXPECT_TRUE(call.stop_requested());
  }
  ASSERT_OK_AND_ASSIGN(const CallGate::Call call, gate.Enter(Purpose::kCompute));
  EXPECT_FALSE(call.stop_requested());
}

TEST(CallGate, CloseCancelsAndWaits) {
  std::atomic<bool> is_in{false}, left{false};
  absl::Status why;
  std::thread caller;
  {
    CallGate gate;
    caller = std::thread([&] {
      const absl::StatusOr<CallGate::Call> call = gate.Enter(Purpose::kCompute);
      is_in = true;
      while (!call->token().cancelled()) std::this_thread::yield();
      why = call->token().status();
      left = true;
    });
    while (!is_in) std::this_thread::yield();
    gate.Close();
    EXPECT_TRUE(left);
  }
  caller.join();
  EXPECT_THAT(why, StatusIs(absl::StatusCode::kCancelled, HasSubstr("destroyed")));
}

}  // namespace
}  // namespace armature
