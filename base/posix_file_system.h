// PosixFileSystem: the machine's own files. Stateless: make one wherever one is needed.
//
// Map uses mmap: opening a file of any size reads nothing, and processes share the pages. A mapped file must
// not be shortened in place (the system answers a read past the end with SIGBUS); replacing it by Rename is
// fine.
//
// Lock uses flock on a file that stays behind; the kernel drops the lock of a process that dies. It holds
// against every other holder on the machine, those of the same process included; on network file systems as
// far as they support it.
//
// Appends go to the kernel at once, so a killed process loses nothing that was appended. After a failed
// Append or Sync the file only returns that error: a kernel that failed to write pages may drop them and
// report success the next time.
//
// Reference: Rebello et al., "Can Applications Recover from fsync Failures?", USENIX ATC 2020.
#ifndef ARMATURE_BASE_POSIX_FILE_SYSTEM_H_
#define ARMATURE_BASE_POSIX_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <vector>

#include "armature/base/file_system.h"

namespace armature {

class PosixFileSystem final : public FileSystem {
 public:
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
};

}  // namespace armature

#endif  // ARMATURE_BASE_POSIX_FILE_SYSTEM_H_
