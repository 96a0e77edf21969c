// MemoryFileSystem: files that live in this object. For tests, and for hosts that keep checkpoints in memory.
//
// It knows what a disk forgets. Beside its present content each file has that of its last Sync, and each
// directory the entries of its last SyncDirectory; Crash goes back to them, as a machine that lost power may:
//
//   MemoryFileSystem disk;
//   Save(disk);
//   disk.Crash(CrashKeeps::kSyncedOnly);
//   Load(disk);
//
// Paths are the same with and without a leading "/"; "." and ".." are taken lexically. The root always
// exists. Map copies: the mapped bytes are those of the moment of the call.
#ifndef ARMATURE_BASE_MEMORY_FILE_SYSTEM_H_
#define ARMATURE_BASE_MEMORY_FILE_SYSTEM_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "armature/base/file_system.h"

namespace armature {

enum class CrashKeeps {
  kEverything,       // the process was killed, the machine went on
  kSyncedOnly,       // neither unsynced bytes nor unsynced directory entries reached the disk
  kUnsyncedEntries,  // directory changes reached the disk, unsynced bytes did not: renamed files are cut
                     // short or empty
};

// Must outlive the files and locks that it gave out.
class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();
  ~MemoryFileSystem() override;

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

  // What is left after a crash. Files still open fail with Unavailable from now on; locks are gone.
  void Crash(CrashKeeps keeps);

 private:
  struct Node;
  struct Place;
  class OpenFile;
  class HeldLock;

  absl::StatusOr<std::shared_ptr<Node>> Find(absl::string_view path) const;
  absl::StatusOr<Place> FindPlace(absl::string_view path) const;
  absl::StatusOr<std::shared_ptr<Node>> FindFile(absl::string_view path) const;
  absl::StatusOr<std::shared_ptr<Node>> FindDirectory(absl::string_view path) const;
  absl::StatusOr<std::shared_ptr<Node>> FindOrMakeFile(absl::string_view path);
  absl::StatusOr<std::unique_ptr<WritableFile>> Open(absl::string_view path, bool truncate);

  mutable std::mutex mutex_;  // guards all below, and every node
  std::shared_ptr<Node> root_;
  int64_t crashes_ = 0;
};

}  // namespace armature

#endif  // ARMATURE_BASE_MEMORY_FILE_SYSTEM_H_
