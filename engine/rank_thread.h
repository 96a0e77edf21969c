// RankThread: the thread that a local rank lives on. Bodies are run one at a time, in order.
#ifndef ARMATURE_ENGINE_RANK_THREAD_H_
#define ARMATURE_ENGINE_RANK_THREAD_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "absl/status/statusor.h"

namespace armature {

class RankThread {
 public:
  // Errors: ResourceExhausted if the system refuses a thread.
  static absl::StatusOr<std::unique_ptr<RankThread>> Start();
  // Ends the running body, joins the thread.
  ~RankThread();

  RankThread(const RankThread&) = delete;
  RankThread& operator=(const RankThread&) = delete;

  // Runs `body` on the thread and returns at once. Only after Wait for the one before.
  void Begin(std::function<void()> body);
  // Returns when the body is done.
  void Wait();

 private:
  RankThread() = default;
  void Loop();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> body_;  // what is to run; null when done
  bool closing_ = false;
  std::thread thread_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_RANK_THREAD_H_
