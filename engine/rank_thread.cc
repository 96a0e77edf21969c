#include "armature/engine/rank_thread.h"

namespace armature {

RankThread::RankThread() : thread_([this] { Loop(); }) {}

RankThread::~RankThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void RankThread::Run(absl::FunctionRef<void()> body) {
  std::lock_guard<std::mutex> one_at_a_time(callers_);
  std::unique_lock<std::mutex> lock(mutex_);
  body_ = &body;
  changed_.notify_all();
  changed_.wait(lock, [this] { return body_ == nullptr; });
}

void RankThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || body_ != nullptr; });
    if (body_ == nullptr) return;
    const absl::FunctionRef<void()> body = *body_;
    lock.unlock();
    body();
    lock.lock();
    body_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace armature
