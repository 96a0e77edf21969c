// FaultyFileSystem: another file system, seen through a bad day. It makes one chosen operation fail, tears a
// write, dies, fills the disk, turns read-only, or flips bits of what is read.
//
// Mutating operations are counted: Create, Append (opening), a file's Append, Sync and Close,
// MakeDirectories, Rename, Remove, RemoveTree, SyncDirectory and Lock. So a test can go through every point
// at which a save may die:
//
//   for (int64_t point = 0;; ++point) {
//     MemoryFileSystem disk;
//     FaultPlan plan;
//     plan.fail_at = point;
//     plan.crash = true;
//     FaultyFileSystem faulty(disk, plan);
//     const absl::Status saved = Save(faulty);
//     disk.Crash(CrashKeeps::kSyncedOnly);
//     ExpectOldOrNewState(disk);
//     if (!faulty.fault_happened()) break;    // the save has no more than `point` operations
//   }
#ifndef ARMATURE_BASE_FAULTY_FILE_SYSTEM_H_
#define ARMATURE_BASE_FAULTY_FILE_SYSTEM_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "armature/base/file_system.h"

namespace armature {

// A bit of a file that reads as its opposite. A file too short for it reads as it is.
struct BitFlip {
  std::string path;  // as passed to Read or Map
  int64_t offset_bytes = 0;
  int bit = 0;  // 0 is the lowest
};

// The default injects nothing.
struct FaultPlan {
  // The mutating operation that fails, counted from 0; -1: none.
  int64_t fail_at = -1;
  // What it returns; must not be OK.
  absl::Status error = absl::UnavailableError("injected fault");
  // If it is an append to a file: how many of its bytes still land (a torn write). More than there are means
  // all.
  int64_t torn_bytes = 0;
  // All later operations fail too, reads included: the process or the machine is gone.
  bool crash = false;

  // How many more bytes the disk takes. An append beyond it lands in part and returns ResourceExhausted.
  // Removing files frees nothing.
  int64_t free_bytes = std::numeric_limits<int64_t>::max();
  // Every mutating operation returns FailedPrecondition.
  bool read_only = false;
  std::vector<BitFlip> bit_flips;
};

// `base` must outlive this, and this the files that it gave out.
class FaultyFileSystem final : public FileSystem {
 public:
  explicit FaultyFileSystem(FileSystem& base, FaultPlan plan = {});

  // Starts over with another plan: the count returns to 0, a crash is forgotten.
  void SetPlan(FaultPlan plan);
  // Mutating operations since the plan was set, failed ones included.
  int64_t mutations() const;
  // True once operation plan.fail_at was reached.
  bool fault_happened() const;

  absl::StatusOr<std::string> Read(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<MappedFile>> Map(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(absl::string_view path) override;
  absl::StatusOr<std::unique_ptr<WritableFile>> Append(absl::string_view path) override;
  absl::StatusOr<FileInfo> Stat(absl::string_view path) override;
  absl::StatusOr<std::vector<std::string>> List(absl::string_view directory) override;
  absl::Status MakeDirectories(absl::string_view directory) override;
  absl::Status Rename(absl::string_view from, absl::string_view to) override;
  absl::Status Remove(absl::string_view path) override;
  absl::Status RemoveTree(absl::string_view directory) override;
  absl::Status SyncDirectory(absl::string_view directory) override;
  absl::StatusOr<std::unique_ptr<FileLock>> Lock(absl::string_view path) override;

 private:
  class File;

  // What an append of `size_bytes` may do: how many bytes land, and what it returns after that.
  struct Verdict {
    int64_t landed_bytes = 0;
    absl::Status status;
  };

  absl::Status CheckAlive(absl::string_view path) const;
  Verdict Mutate(absl::string_view operation, absl::string_view path, int64_t size_bytes);
  absl::Status Mutate(absl::string_view operation, absl::string_view path);
  std::string WithFlips(absl::string_view path, std::string bytes) const;

  FileSystem& base_;
  mutable std::mutex mutex_;  // guards all below
  FaultPlan plan_;
  int64_t mutations_ = 0;
};

}  // namespace armature

#endif  // ARMATURE_BASE_FAULTY_FILE_SYSTEM_H_
