#include "armature/engine/call_gate.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace armature {

void CallGate::Call::Leave::operator()(CallGate* gate) const {
  // Under the lock to the end: whoever waits in Close destroys the gate next.
  std::lock_guard<std::mutex> lock(gate->mutex_);
  gate->running_.reset();
  gate->left_.notify_all();
}

bool CallGate::Call::stop_requested() const {
  std::lock_guard<std::mutex> lock(gate_->mutex_);
  return gate_->stop_requested_;
}

absl::StatusOr<CallGate::Call> CallGate::Enter(Purpose purpose) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_.has_value()) return absl::FailedPreconditionError("the engine is running another call");
  if (!failure_.ok() && purpose == Purpose::kCompute) return failure_;
  if (!failure_.ok() && purpose == Purpose::kAccess) {
    return absl::FailedPreconditionError(
        absl::StrCat("the engine failed (", failure_.ToString(), "); restore it"));
  }
  running_.emplace();
  stop_requested_ = false;
  return Call(*this, running_->token());
}

void CallGate::Fail(const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (failure_.ok()) failure_ = why;
}

void CallGate::Mend() {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = absl::OkStatus();
}

void CallGate::RequestStop() {
  std::lock_guard<std::mutex> lock(mutex_);
  stop_requested_ = running_.has_value();
}

void CallGate::Cancel(absl::Status why) {
  absl::optional<CancellationSource> running;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    running = running_;
  }
  // Not under the lock: who listens to the token may call the gate.
  if (running.has_value()) running->Cancel(std::move(why));
}

void CallGate::Close() {
  Cancel(absl::CancelledError("the engine is being destroyed"));
  std::unique_lock<std::mutex> lock(mutex_);
  left_.wait(lock, [this] { return !running_.has_value(); });
}

}  // namespace armature
