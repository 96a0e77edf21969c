#include "armature/checkpoint/durable_files.h"

#include <memory>

#include "absl/strings/match.h"
#include "armature/base/status_macros.h"

namespace armature {

std::string ParentDirectory(absl::string_view path) {
  while (path.size() > 1 && absl::EndsWith(path, "/")) path.remove_suffix(1);
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return ".";
  return std::string(path.substr(0, slash == 0 ? 1 : slash));
}

absl::Status MakeDurableDirectories(FileSystem& files, absl::string_view directory) {
  const absl::Status found = files.Stat(directory).status();
  if (!absl::IsNotFound(found)) return found;
  const std::string parent = ParentDirectory(directory);
  // The parent of "/" and "." is itself; if even that is absent, making it says why.
  if (parent != directory) ARMATURE_RETURN_IF_ERROR(MakeDurableDirectories(files, parent));
  ARMATURE_RETURN_IF_ERROR(files.MakeDirectories(directory));
  return files.SyncDirectory(parent);
}

absl::Status WriteDurably(FileSystem& files, absl::string_view path, absl::string_view bytes) {
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(path));
  ARMATURE_RETURN_IF_ERROR(file->Append(bytes));
  ARMATURE_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace armature
