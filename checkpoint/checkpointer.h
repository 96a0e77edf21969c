// Checkpointer: sharded, atomic checkpoints that any layout of ranks can load.
//
//   ARMATURE_ASSIGN_OR_RETURN(auto checkpointer, Checkpointer::Open(files, "/runs/7/checkpoints", {}));
//   ARMATURE_ASSIGN_OR_RETURN(SaveHandle save, checkpointer->Save(step, arrays, state));   // writes in the
//   background
//   ...
//   absl::StatusOr<RestoredCheckpoint> restored = checkpointer->RestoreLatest(arrays);
//   if (absl::IsNotFound(restored.status())) StartFromScratch();
//
// A step's checkpoint is a directory. It is written under another name, synced, read back, and given its own
// name by one rename: a crash at any moment leaves the steps that were complete before.
// docs/checkpoint_format.md has the format.
#ifndef ARMATURE_CHECKPOINT_CHECKPOINTER_H_
#define ARMATURE_CHECKPOINT_CHECKPOINTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "armature/base/file_system.h"
#include "armature/checkpoint/manifest.pb.h"
#include "armature/checkpoint/restore.h"
#include "armature/checkpoint/retention.h"
#include "armature/checkpoint/save_handle.h"
#include "armature/checkpoint/shard.h"
#include "armature/tensor/sharded_array.h"
#include "armature/checkpoint/train_state.pb.h"

namespace armature {

struct CheckpointOptions {
  RetentionOptions retention;
  // Whose weights these are: kind and sizes, in words that an error can show ("gpt2 layers=12 hidden=768"). A
  // checkpoint with other words is refused. Empty: not compared.
  std::string model;
  // The configuration's fingerprint or text; stored, given back by a restore, never compared.
  std::string config;
  // False: Save itself writes, and needs no copy of the arrays.
  bool background = true;
  // True: restores only, takes no lock, writes nothing. For storage that others write or that is read-only.
  bool read_only = false;
};

struct RestoredCheckpoint {
  int64_t step = 0;
  TrainState state;
  std::string config;
  // Newer ones that were passed over, a line each that says why: for the log.
  std::vector<std::string> skipped;
};

// Thread-compatible. Of all writers on the machine one at a time can have a directory open.
class Checkpointer {
 public:
  // Makes `root` if need be. `files` must outlive the checkpointer.
  // Errors: FailedPrecondition if another writer has it open, or if it can't be written and read_only is
  // false; NotFound if it is absent and read_only is true; InvalidArgument if a text of the options is not
  // UTF-8.
  static absl::StatusOr<std::unique_ptr<Checkpointer>> Open(FileSystem& files, absl::string_view root,
                                                            CheckpointOptions options);
  // Ends a save that is being written.
  ~Checkpointer();

  // Copies the arrays, returns, and writes in the background. Then removes what the retention rule gives up.
  // A save before this one is ended first. The same step may be saved again: the new one replaces the old.
  // Errors, here: InvalidArgument naming the tensor, if an array is not what its slice says;
  // ResourceExhausted if there is no memory for the copy; and that of the save before this one if no Wait has
  // returned it (this one is then not begun). Errors, of the handle: InvalidArgument if an element is in no
  // primary slice or in two; DataLoss if what was written reads back otherwise; those of the file system. The
  // older checkpoints are then still there.
  absl::StatusOr<SaveHandle> Save(int64_t step, absl::Span<const ShardedArray> arrays,
                                  const TrainState& state);

  // Complete steps, ascending. Whether their bytes are still right, only a restore finds out.
  absl::StatusOr<std::vector<int64_t>> Steps() const;

  // Fills the arrays from the checkpoint, whatever slices it was saved in. On an error nothing was touched. A
  // save that is being written is ended first. Errors: NotFound if there is no such step; InvalidArgument if
  // it is another model's or does not fit (CheckFits); DataLoss naming the file and tensor, if a byte
  // changed; those of the file system.
  absl::StatusOr<RestoredCheckpoint> Restore(int64_t step, absl::Span<const ShardedArray> into,
                                             const RestoreOptions& options = {});

  // The newest one that verifies. Damaged and unfinished ones are skipped; one that does not fit, or that the
  // file system fails to read, is an error and not skipped. Errors: NotFound if no save was ever completed
  // here; DataLoss if all are damaged; otherwise as Restore.
  absl::StatusOr<RestoredCheckpoint> RestoreLatest(absl::Span<const ShardedArray> into,
                                                   const RestoreOptions& options = {});

 private:
  Checkpointer(FileSystem& files, absl::string_view root, CheckpointOptions options);

  std::string PathOf(absl::string_view name) const;
  void WaitForWriter();
  absl::Status TakeErrorOfLastSave();
  absl::StatusOr<SaveReport> Write(int64_t step, absl::Span<const HostSlice> slices, const TrainState& state);
  absl::StatusOr<int64_t> WriteAside(int64_t step, absl::Span<const HostSlice> slices,
                                     const TrainState& state);
  absl::Status Cleanup(int64_t just_written);
  absl::StatusOr<Manifest> ReadManifest(absl::string_view directory_name) const;
  absl::StatusOr<RestoredCheckpoint> RestoreFrom(int64_t step, absl::string_view directory_name,
                                                 absl::Span<const ShardedArray> into,
                                                 const RestoreOptions& options) const;

  FileSystem& files_;
  const std::string root_;
  const CheckpointOptions options_;
  std::unique_ptr<FileLock> lock_;
  std::thread writer_;
  absl::optional<SaveHandle> last_save_;
};

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_CHECKPOINTER_H_
