#include "armature/base/cancellation.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace armature {
namespace internal {

class CancellationState {
 public:
  bool cancelled() const { return cancelled_.load(std::memory_order_acquire); }

  absl::Status status() {
    if (!cancelled()) return absl::OkStatus();
    std::lock_guard<std::mutex> lock(mutex_);
    return why_;
  }

  bool Cancel(absl::Status why) {
    if (why.ok()) why = absl::CancelledError("cancelled");
    std::unique_lock<std::mutex> lock(mutex_);
    if (cancelled()) return false;
    why_ = why;
    cancelled_.store(true, std::memory_order_release);
    changed_.notify_all();
    runner_ = std::this_thread::get_id();
    while (!callbacks_.empty()) {
      running_ = callbacks_.front();
      callbacks_.erase(callbacks_.begin());
      // Taken out, since the function may destroy its own callback.
      const std::function<void(const absl::Status&)> function = std::move(running_->function_);
      lock.unlock();
      function(why);
      lock.lock();
      running_ = nullptr;
      changed_.notify_all();
    }
    return true;
  }

  absl::Status WaitUntil(Clock& clock, absl::Time deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!cancelled() && clock.WaitUntil(changed_, lock, deadline)) {
    }
    return why_;
  }

  // False if it is too late, and the caller is to run the function itself.
  bool Register(CancellationCallback* callback) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (cancelled()) return false;
    callbacks_.push_back(callback);
    return true;
  }

  void Unregister(CancellationCallback* callback) {
    std::unique_lock<std::mutex> lock(mutex_);
    callbacks_.erase(std::remove(callbacks_.begin(), callbacks_.end(), callback), callbacks_.end());
    if (runner_ == std::this_thread::get_id()) return;
    changed_.wait(lock, [&] { return running_ != callback; });
  }

 private:
  std::atomic<bool> cancelled_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status why_;
  std::vector<CancellationCallback*> callbacks_;
  CancellationCallback* running_ = nullptr;  // the one whose function runs now, on thread runner_
  std::thread::id runner_;
};

}  // namespace internal

bool CancellationToken::cancelled() const { return state_ != nullptr && state_->cancelled(); }

absl::Status CancellationToken::status() const {
  return state_ == nullptr ? absl::OkStatus() : state_->status();
}

absl::Status CancellationToken::WaitUntil(Clock& clock, absl::Time deadline) const {
  if (state_ != nullptr) return state_->WaitUntil(clock, deadline);
  clock.SleepUntil(deadline);
  return absl::OkStatus();
}

CancellationSource::CancellationSource() : state_(std::make_shared<internal::CancellationState>()) {}

bool CancellationSource::Cancel(absl::Status why) { return state_->Cancel(std::move(why)); }

CancellationCallback::CancellationCallback(CancellationToken token,
                                           std::function<void(const absl::Status&)> function)
    : token_(std::move(token)), function_(std::move(function)) {
  if (token_.state_ != nullptr && !token_.state_->Register(this)) function_(token_.status());
}

CancellationCallback::~CancellationCallback() {
  if (token_.state_ != nullptr) token_.state_->Unregister(this);
}

}  // namespace armature
