// FileSystem: the files that checkpoints, token files and logs live in. The host may lend its own.
//
// Three implementations, all products: PosixFileSystem (base/posix_file_system.h), MemoryFileSystem and
// FaultyFileSystem, which tears writes, fills the disk and flips bits on request. All pass
// base/file_system_conformance.
//
// Errors, everywhere: NotFound and PermissionDenied as their names say, ResourceExhausted when the disk is
// full, FailedPrecondition on a read-only file system, Unavailable for other I/O errors. Messages name the
// path.
#ifndef ARMATURE_BASE_FILE_SYSTEM_H_
#define ARMATURE_BASE_FILE_SYSTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace armature {

// A file being written, from its start. Destroying one that was not closed drops what was not yet written
// out.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual absl::Status Append(absl::string_view bytes) = 0;
  // On return the bytes appended so far survive a crash of the machine.
  virtual absl::Status Sync() = 0;
  // Writes out and closes; call once, last. A full disk may be noticed only here.
  virtual absl::Status Close() = 0;
};

// The bytes of a file, mapped where the system can. They stay readable for the life of this object.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual absl::string_view bytes() const = 0;
};

// Held until destroyed, and by at most one holder on the machine.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

struct FileInfo {
  int64_t size_bytes = 0;
  bool is_directory = false;
};

// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual absl::StatusOr<std::string> Read(absl::string_view path) = 0;
  virtual absl::StatusOr<std::unique_ptr<MappedFile>> Map(absl::string_view path) = 0;
  // Replaces an existing file; the directory must exist. New files are readable by all and writable by their
  // owner.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Create(absl::string_view path) = 0;
  // Like Create, but goes on at the end of an existing file.
  virtual absl::StatusOr<std::unique_ptr<WritableFile>> Append(absl::string_view path) = 0;

  virtual absl::StatusOr<FileInfo> Stat(absl::string_view path) = 0;
  // Names (not paths) in a directory, sorted.
  virtual absl::StatusOr<std::vector<std::string>> List(absl::string_view directory) = 0;
  // Parents included; an existing directory is fine.
  virtual absl::Status MakeDirectories(absl::string_view directory) = 0;

  // Atomic within one directory tree. A file at `to` is replaced; a directory at `to` must be empty or
  // absent.
  virtual absl::Status Rename(absl::string_view from, absl::string_view to) = 0;
  virtual absl::Status Remove(absl::string_view path) = 0;
  // A directory and all in it. An absent one is fine.
  virtual absl::Status RemoveTree(absl::string_view directory) = 0;
  // On return the directory's entries (creations, renames, removals) survive a crash of the machine.
  virtual absl::Status SyncDirectory(absl::string_view directory) = 0;

  // Creates `path` if absent and locks it. Errors: FailedPrecondition if another holder has it, in this
  // process or in any other on the machine.
  virtual absl::StatusOr<std::unique_ptr<FileLock>> Lock(absl::string_view path) = 0;
};

}  // namespace armature

#endif  // ARMATURE_BASE_FILE_SYSTEM_H_
