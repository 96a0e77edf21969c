// Cancellation: one thread says stop and why, the others learn of it where they look or wait.
//
//   CancellationSource source;
//   std::thread worker([token = source.token()] {
//     while (token.status().ok()) Work();
//   });
//   source.Cancel(absl::CancelledError("the host shuts down"));
//
// A source can be cancelled once: the first reason wins and stays. Source and tokens share their state, so
// that either may be destroyed first.
#ifndef ARMATURE_BASE_CANCELLATION_H_
#define ARMATURE_BASE_CANCELLATION_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "armature/base/clock.h"

namespace armature {

namespace internal {
class CancellationState;
}  // namespace internal

// Thread-safe and cheap to copy.
class CancellationToken {
 public:
  // A token that is never cancelled.
  CancellationToken() = default;

  // One atomic load: for inner loops.
  bool cancelled() const;
  // OK until cancelled, then the reason.
  absl::Status status() const;
  // Waits for cancellation, or until clock.Now() >= deadline; returns status(): OK means that the deadline
  // came first.
  absl::Status WaitUntil(Clock& clock, absl::Time deadline) const;

 private:
  friend class CancellationSource;
  friend class CancellationCallback;
  explicit CancellationToken(std::shared_ptr<internal::CancellationState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::CancellationState> state_;  // null: never cancelled
};

// Thread-safe.
class CancellationSource {
 public:
  CancellationSource();

  // Cancels, and runs the registered callbacks on this thread. Returns true if this was the first call; later
  // ones change nothing. An OK `why` becomes Cancelled.
  bool Cancel(absl::Status why);
  CancellationToken token() const { return CancellationToken(state_); }

 private:
  std::shared_ptr<internal::CancellationState> state_;
};

// Calls a function once if its token is cancelled, as long as this object lives; at once, on the constructing
// thread, if the token already is. The model is std::stop_callback.
//
//   CancellationCallback abort(token, [&](const absl::Status& why) { communicator.Abort(why); });
//
// When the destructor returns, the function neither runs nor will run, unless the destructor is called by the
// function itself. So don't destroy a callback under a mutex that its function takes.
class CancellationCallback {
 public:
  CancellationCallback(CancellationToken token, std::function<void(const absl::Status&)> function);
  ~CancellationCallback();

  CancellationCallback(const CancellationCallback&) = delete;
  CancellationCallback& operator=(const CancellationCallback&) = delete;

 private:
  friend class internal::CancellationState;

  CancellationToken token_;
  std::function<void(const absl::Status&)> function_;
};

}  // namespace armature

#endif  // ARMATURE_BASE_CANCELLATION_H_
