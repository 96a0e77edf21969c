#include "armature/tensor/mapped_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace armature {
namespace {

// A file that has no name, or loses it at once where the file system can't make such. -1, and errno, on an
// error.
int OpenUnnamed(const std::string& directory) {
  const int unnamed = open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (unnamed >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return unnamed;
  std::string path = absl::StrCat(directory, "/offload.XXXXXX");
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

}  // namespace

absl::StatusOr<void*> MappedMemory::Acquire(int64_t bytes) {
  const auto error = [&](int code, absl::string_view what) {
    return absl::ErrnoToStatus(code, absl::StrCat(what, " ", bytes, " bytes in ", directory_));
  };
  const int file = OpenUnnamed(directory_);
  if (file < 0) return error(errno, "making a file for");
  const auto close_file = absl::MakeCleanup([file] { close(file); });
  if (const int code = posix_fallocate(file, 0, bytes); code != 0) return error(code, "reserving");
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) return error(errno, "mapping");
  return data;
}

void MappedMemory::Release(void* data, int64_t bytes) { munmap(data, bytes); }

}  // namespace armature
