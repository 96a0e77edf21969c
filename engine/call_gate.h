// CallGate: the states of an engine. It lets one call in at a time, and says what any other gets.
//
//   absl::StatusOr<StepResult> Engine::Step(...) {
//     ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, gate.Enter(CallGate::Purpose::kCompute));
//     ...                                              // asks call.token() now and then
//   }                                                  // and is out again
//
//   state   | it is in when                            | who may enter
//   --------|------------------------------------------|------------------------------
//   ready   | otherwise                                | every purpose
//   running | a Call lives                             | nobody: FailedPrecondition
//   failed  | Fail was called, and no Mend since       | kRestore only
#ifndef ARMATURE_ENGINE_CALL_GATE_H_
#define ARMATURE_ENGINE_CALL_GATE_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "armature/base/cancellation.h"

namespace armature {

// Thread-safe. Calls must be over before it is destroyed: Close sees to that.
class CallGate {
 public:
  enum class Purpose {
    kCompute,  // in the failed state: the error that failed the engine, as it was
    kAccess,   // to weights and checkpoints; in the failed state: FailedPrecondition, with that error's text
    kRestore,
  };

  // A call that is in. The gate opens again when it is destroyed.
  class Call {
   public:
    Call(Call&& other) = default;
    Call& operator=(Call&&) = delete;

    // Cancelled by Cancel and Close.
    CancellationToken token() const { return token_; }
    // RequestStop was called since this call is in.
    bool stop_requested() const;

   private:
    friend class CallGate;
    struct Leave {
      void operator()(CallGate* gate) const;
    };
    Call(CallGate& gate, CancellationToken token) : gate_(&gate), token_(std::move(token)) {}

    std::unique_ptr<CallGate, Leave> gate_;
    CancellationToken token_;
  };

  // Errors: FailedPrecondition while another call is in; in the failed state as the purpose says.
  absl::StatusOr<Call> Enter(Purpose purpose);

  // By the call that is in: the state after it. The first failure stays until Mend.
  void Fail(const absl::Status& why);
  void Mend();

  // Any thread; without a call that is in they do nothing.
  void RequestStop();
  void Cancel(absl::Status why);
  // Cancels the call that is in, and returns when it is out.
  void Close();

 private:
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable left_;
  absl::optional<CancellationSource> running_;  // of the call that is in
  bool stop_requested_ = false;
  absl::Status failure_;  // not OK: failed
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_CALL_GATE_H_
