// A ThreadTeam is a fixed set of threads that work on one loop at a time and rest in between.
//
//   ThreadTeam team(4);
//   team.ParallelFor(rows, /*grain=*/16, [&](int64_t begin, int64_t end) { Normalize(x, begin, end); });
//
// The calling thread takes part, so a team of 1 starts no thread. Work is cut into at most size() contiguous
// ranges of nearly equal length: which elements share a range depends only on (count, grain, size), never on
// timing. Results must not depend on the cut: a team may change speed, never values.
#ifndef ARMATURE_BASE_THREAD_TEAM_H_
#define ARMATURE_BASE_THREAD_TEAM_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace armature {

// Thread-compatible: one loop at a time. Loops must not be nested on the same team, and `body` must not
// throw.
class ThreadTeam {
 public:
  // Starts size - 1 threads; size < 1 counts as 1. If the system refuses one, the team is smaller: see
  // size().
  explicit ThreadTeam(int size);
  // Joins them.
  ~ThreadTeam();

  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }

  // Calls body(begin, end) over disjoint ranges that cover [0, count), at most one per thread, and returns
  // when all are done. A range has at least `grain` elements, unless it is the only one. count <= 0 calls
  // nothing.
  void ParallelFor(int64_t count, int64_t grain, absl::FunctionRef<void(int64_t begin, int64_t end)> body);

  // Calls body(index) once for each index in [0, size()), each on its own thread; index 0 is the caller's.
  void OnEach(absl::FunctionRef<void(int index)> body);

 private:
  void Loop(int index);

  std::vector<std::thread> threads_;
  const absl::FunctionRef<void(int)>* body_ = nullptr;
  std::atomic<uint64_t> generation_{0};  // odd numbers never occur; each OnEach adds 2, closing adds 1
  std::atomic<int> unfinished_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
};

}  // namespace armature

#endif  // ARMATURE_BASE_THREAD_TEAM_H_
