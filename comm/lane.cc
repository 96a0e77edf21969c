#include "armature/comm/lane.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "armature/base/clock.h"

namespace armature {
namespace comm {

class Lane::Entry : public PendingWork {
 public:
  Entry(std::shared_ptr<State> lane, std::unique_ptr<Task> task)
      : lane_(std::move(lane)), task_(std::move(task)) {}

  void Start() override;
  bool done() override;
  absl::Status Wait(absl::Time deadline) override;
  absl::Duration duration() override;

 private:
  friend class State;
  const std::shared_ptr<State> lane_;
  std::unique_ptr<Task> task_;
  // Guarded by the lane's mutex.
  uint64_t number_ = 0;
  bool done_ = false;
  absl::Status result_;
  absl::Duration duration_;
};

class Lane::State {
 public:
  explicit State(std::function<void(absl::Status)> fail) : fail_(std::move(fail)) {}

  void Push(const std::shared_ptr<Entry>& entry) {
    std::unique_lock<std::mutex> lock(mutex_);
    entry->number_ = pushed_++;
    if (closed_) {
      Finish(*entry, why_closed_);
    } else {
      queue_.push_back(entry);
    }
  }

  // Lets the lane's thread run everything up to `entry`.
  void Start(const Entry& entry) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (entry.done_ || closed_ || started_ > entry.number_) return;
    started_ = entry.number_ + 1;
    if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
    changed_.notify_all();
  }

  bool Done(const Entry& entry) {
    std::unique_lock<std::mutex> lock(mutex_);
    return entry.done_;
  }

  absl::Duration DurationOf(const Entry& entry) {
    std::unique_lock<std::mutex> lock(mutex_);
    return entry.duration_;
  }

  absl::Status Wait(const Entry& entry, absl::Time deadline) {
    std::unique_lock<std::mutex> lock(mutex_);
    bool late = false;
    while (!entry.done_) {
      if (!running_) {
        RunFront(lock, deadline);
      } else if (late) {
        changed_.wait(lock);
      } else if (!RealClock().WaitUntil(changed_, lock, deadline) && !entry.done_) {
        late = true;
        lock.unlock();
        fail_(absl::DeadlineExceededError("an operation begun in the background did not end in time"));
        lock.lock();
      }
    }
    return entry.result_;
  }

  void Close(const absl::Status& why) {
    std::thread thread;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (closed_) return;
      closed_ = true;
      why_closed_ = why;
      while (!queue_.empty()) {
        Finish(*queue_.front(), why);
        queue_.pop_front();
      }
      changed_.notify_all();
      if (running_) {
        lock.unlock();
        fail_(why);
        lock.lock();
      }
      while (running_) changed_.wait(lock);
      thread = std::move(thread_);
    }
    if (thread.joinable()) thread.join();
  }

 private:
  void Loop() {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!closed_) {
      if (!running_ && !queue_.empty() && queue_.front()->number_ < started_) {
        RunFront(lock, absl::InfiniteFuture());
      } else {
        changed_.wait(lock);
      }
    }
  }

  // Runs the first of the queue without the mutex.
  void RunFront(std::unique_lock<std::mutex>& lock, absl::Time deadline) {
    const std::shared_ptr<Entry> entry = std::move(queue_.front());
    queue_.pop_front();
    running_ = true;
    lock.unlock();
    const absl::Time begin = absl::Now();
    absl::Status result = entry->task_->Run(deadline);
    const absl::Duration duration = absl::Now() - begin;
    lock.lock();
    running_ = false;
    entry->duration_ = duration;
    Finish(*entry, std::move(result));
    changed_.notify_all();
  }

  static void Finish(Entry& entry, absl::Status result) {
    entry.result_ = std::move(result);
    entry.done_ = true;
    entry.task_ = nullptr;
  }

  const std::function<void(absl::Status)> fail_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> queue_;
  uint64_t pushed_ = 0;
  uint64_t started_ = 0;  // entries below this number may run in the background
  bool running_ = false;
  bool closed_ = false;
  absl::Status why_closed_;
  std::thread thread_;
};

void Lane::Entry::Start() { lane_->Start(*this); }
bool Lane::Entry::done() { return lane_->Done(*this); }
absl::Duration Lane::Entry::duration() { return lane_->DurationOf(*this); }
absl::Status Lane::Entry::Wait(absl::Time deadline) { return lane_->Wait(*this, deadline); }

Lane::Lane(std::function<void(absl::Status)> fail) : state_(std::make_shared<State>(std::move(fail))) {}
Lane::~Lane() { Close(absl::CancelledError("the communicator was destroyed")); }

Work Lane::Submit(std::unique_ptr<Task> task) {
  auto entry = std::make_shared<Entry>(state_, std::move(task));
  state_->Push(entry);
  return Work(std::move(entry));
}

void Lane::Close(const absl::Status& why) { state_->Close(why); }

}  // namespace comm
}  // namespace armature
