#include "armature/base/thread_team.h"

#include <algorithm>
#include <system_error>

namespace armature {
namespace {

// A waiting thread polls this often before it sleeps: some tens of microseconds, longer than the gap between
// two kernels of a step and shorter than anything that a host would notice as a busy core.
constexpr int kPolls = 2000;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

template <typename Condition>
bool Poll(const Condition& condition) {
  for (int i = 0; i < kPolls; ++i) {
    if (condition()) return true;
    Pause();
  }
  return false;
}

}  // namespace

ThreadTeam::ThreadTeam(int size) {
  threads_.reserve(std::max(size - 1, 0));
  try {
    for (int index = 1; index < size; ++index) threads_.emplace_back([this, index] { Loop(index); });
  } catch (const std::system_error&) {
    // The system has no more threads to give.
  }
}

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    generation_.fetch_add(1);
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Loop(int index) {
  uint64_t seen = 0;
  while (true) {
    const auto called = [&] { return generation_.load(std::memory_order_acquire) != seen; };
    if (!Poll(called)) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, called);
    }
    const uint64_t generation = generation_.load(std::memory_order_acquire);
    if (generation % 2 != 0) return;
    seen = generation;
    (*body_)(index);
    if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.notify_one();
    }
  }
}

void ThreadTeam::OnEach(absl::FunctionRef<void(int)> body) {
  if (threads_.empty()) {
    body(0);
    return;
  }
  body_ = &body;
  unfinished_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    generation_.fetch_add(2, std::memory_order_release);
  }
  wake_.notify_all();
  body(0);
  const auto finished = [&] { return unfinished_.load(std::memory_order_acquire) == 0; };
  if (!Poll(finished)) {
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, finished);
  }
}

void ThreadTeam::ParallelFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t, int64_t)> body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t parts = std::min<int64_t>(size(), std::max<int64_t>(count / grain, 1));
  if (parts == 1) {
    body(0, count);
    return;
  }
  OnEach([&](int index) {
    // The first count % parts ranges are one element longer.
    const int64_t length = count / parts, longer = count % parts;
    const int64_t begin = index * length + std::min<int64_t>(index, longer);
    const int64_t end = begin + length + (index < longer ? 1 : 0);
    if (index < parts) body(begin, end);
  });
}

}  // namespace armature
