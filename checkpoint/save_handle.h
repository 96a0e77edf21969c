// SaveHandle: a checkpoint on its way to the disk.
#ifndef ARMATURE_CHECKPOINT_SAVE_HANDLE_H_
#define ARMATURE_CHECKPOINT_SAVE_HANDLE_H_

#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace armature {

struct SaveReport {
  int64_t step = 0;
  std::string directory;
  int64_t size_bytes = 0;  // of its files
  // OK, or why older checkpoints or leftovers could not be removed. The new one exists all the same.
  absl::Status cleanup;
};

// A cheap handle; copies speak of the same save. Dropping it changes nothing. Thread-safe; outlives its
// Checkpointer.
class SaveHandle {
 public:
  // A save that ended.
  explicit SaveHandle(absl::StatusOr<SaveReport> result);

  // Blocks until the save ended. The checkpoint exists when this is OK, and not before. After an error what
  // was written is removed as far as the disk allows; only if the very last sync failed, the checkpoint may
  // be there after all, whole.
  absl::StatusOr<SaveReport> Wait() const;
  // True if Wait would not block.
  bool done() const;

 private:
  friend class Checkpointer;
  struct Shared {
    std::promise<absl::StatusOr<SaveReport>> promise;
    std::shared_future<absl::StatusOr<SaveReport>> future = promise.get_future().share();
    std::atomic<bool> was_reported{false};  // some Wait returned
  };

  SaveHandle() : shared_(std::make_shared<Shared>()) {}

  std::shared_ptr<Shared> shared_;
};

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_SAVE_HANDLE_H_
