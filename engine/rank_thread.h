// RankThread: the thread that a local rank lives on. Calls are run one at a time, in order.
#ifndef ARMATURE_ENGINE_RANK_THREAD_H_
#define ARMATURE_ENGINE_RANK_THREAD_H_

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

namespace armature {

class RankThread {
 public:
  // Errors: ResourceExhausted if the system refuses a thread.
  static absl::StatusOr<std::unique_ptr<RankThread>> Start();
  // Joins the thread.
  ~RankThread();

  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  // Runs `body` on the thread and returns when it is done. Callers on several threads wait for each other.
  void Run(absl::FunctionRef<void()> body);

 private:
  RankThread() = default;
  void Loop();

  std::mutex callers_;  // held over a whole Run
  std::mutex mutex_;
  std::condition_variable changed_;
  const absl::FunctionRef<void()>* body_ = nullptr;  // what is to run; null when done
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_RANK_THREAD_H_
