#include "armature/comm/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace comm {
namespace {

absl::Status IoError(absl::string_view doing, const std::string& path) {
  const int error = errno;
  return absl::UnavailableError(absl::StrCat("store: ", doing, " ", path, ": ", std::strerror(error)));
}

absl::Status WriteAll(int fd, absl::string_view bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError("write", path);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(int fd, const std::string& path) {
  std::string bytes;
  char buffer[4096];
  for (;;) {
    const ssize_t got = read(fd, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return IoError("read", path);
    if (got == 0) return bytes;
    bytes.append(buffer, static_cast<size_t>(got));
  }
}

class FileStore final : public Store {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {}

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    const std::string path = PathOf("value", key);
    // A process id is not enough of a name: several hosts share the folder.
    const std::string draft =
        absl::StrCat(path, ".", getpid(), ".", absl::ToUnixNanos(absl::Now()), ".", drafts_.fetch_add(1));
    const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return IoError("create", draft);
    absl::Status written = WriteAll(fd, value, draft);
    if (close(fd) != 0 && written.ok()) written = IoError("close", draft);
    ARMATURE_RETURN_IF_ERROR(written);
    return rename(draft.c_str(), path.c_str()) == 0 ? absl::OkStatus() : IoError("rename to", path);
  }

  absl::StatusOr<std::string> Get(absl::string_view key, absl::Time deadline) override {
    const std::string path = PathOf("value", key);
    absl::Duration pause = absl::Milliseconds(1);
    for (;;) {
      const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
      if (fd >= 0) {
        absl::StatusOr<std::string> value = ReadAll(fd, path);
        close(fd);
        return value;
      }
      if (errno != ENOENT) return IoError("open", path);
      const absl::Duration left = deadline - absl::Now();
      if (left <= absl::ZeroDuration()) {
        return absl::DeadlineExceededError(absl::StrCat("store ", folder_, ": nobody has set ", key));
      }
      absl::SleepFor(std::min(pause, left));
      pause = std::min(2 * pause, absl::Milliseconds(20));
    }
  }

  absl::StatusOr<int64_t> Add(absl::string_view key, int64_t delta) override {
    const std::string path = PathOf("counter", key);
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return IoError("open", path);
    auto closer = absl::MakeCleanup([fd] { close(fd); });  // which unlocks
    while (flock(fd, LOCK_EX) != 0) {
      if (errno != EINTR) return IoError("lock", path);
    }
    ARMATURE_ASSIGN_OR_RETURN(std::string text, ReadAll(fd, path));
    int64_t value = 0;
    if (!text.empty() && !absl::SimpleAtoi(text, &value)) {
      return absl::UnavailableError(absl::StrCat("store: ", path, " holds no number"));
    }
    value += delta;
    if (lseek(fd, 0, SEEK_SET) != 0) return IoError("seek in", path);
    // Longer than any number, so that a shorter one leaves no digit behind.
    std::string line = absl::StrCat(value);
    line.resize(24, ' ');
    ARMATURE_RETURN_IF_ERROR(WriteAll(fd, line, path));
    return value;
  }

 private:
  // File names are short and their alphabet is small: a hash tells long keys apart.
  std::string PathOf(absl::string_view kind, absl::string_view key) const {
    uint64_t hash = 14695981039346656037u;  // FNV-1a
    for (char c : key) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211u;
    return absl::StrCat(folder_, "/", kind, ".", absl::BytesToHexString(key.substr(0, 64)), ".",
                        absl::Hex(hash));
  }

  const std::string folder_;
  std::atomic<int64_t> drafts_{0};
};

}  // namespace

absl::StatusOr<std::shared_ptr<Store>> OpenFileStore(absl::string_view folder) {
  const std::string path(folder);
  if (mkdir(path.c_str(), 0755) != 0 && errno != EEXIST) return IoError("make the folder", path);
  return std::make_shared<FileStore>(path);
}

}  // namespace comm
}  // namespace armature
