#include "armature/engine/rank_thread.h"

#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

namespace armature {

absl::StatusOr<std::unique_ptr<RankThread>> RankThread::Start() {
  std::unique_ptr<RankThread> rank(new RankThread);
  try {
    rank->thread_ = std::thread([rank = rank.get()] { rank->Loop(); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread for a rank: ", error.what()));
  }
  return rank;
}

RankThread::~RankThread() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RankThread::Begin(std::function<void()> body) {
  std::lock_guard<std::mutex> lock(mutex_);
  body_ = std::move(body);
  changed_.notify_all();
}

void RankThread::Wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return body_ == nullptr; });
}

void RankThread::Loop() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return closing_ || body_ != nullptr; });
    if (body_ == nullptr) return;
    const std::function<void()> body = body_;
    lock.unlock();
    body();
    lock.lock();
    body_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace armature
