// Writing so that a crash of the machine does not undo it.
#ifndef ARMATURE_CHECKPOINT_DURABLE_FILES_H_
#define ARMATURE_CHECKPOINT_DURABLE_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "armature/base/file_system.h"

namespace armature {

// The directory that a path's last component is in: "a" of "a/b", "/" of "/b", "." of "b".
std::string ParentDirectory(absl::string_view path);

// Makes a directory and its parents, and syncs the entries of those that were absent.
absl::Status MakeDurableDirectories(FileSystem& files, absl::string_view directory);

// Writes and syncs a file, but not its directory.
absl::Status WriteDurably(FileSystem& files, absl::string_view path, absl::string_view bytes);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_DURABLE_FILES_H_
