#include "armature/base/posix_file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace {

absl::StatusCode CodeOf(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
      return absl::StatusCode::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::StatusCode::kResourceExhausted;
    case EROFS:
      return absl::StatusCode::kFailedPrecondition;
    default:
      return absl::StatusCode::kUnavailable;
  }
}

// "cannot open a/b: No such file or directory".
absl::Status Failure(absl::string_view what, absl::string_view path, int error) {
  return absl::Status(CodeOf(error),
                      absl::StrCat("cannot ", what, " ", path, ": ", std::generic_category().message(error)));
}

template <typename Call>
auto RetryIfInterrupted(const Call& call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
  return result;
}

// Owns an open file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

constexpr int kPermissions = 0644;

absl::StatusOr<Descriptor> Open(const std::string& path, int flags) {
  const int fd = RetryIfInterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, kPermissions); });
  if (fd < 0) return Failure("open", path, errno);
  return Descriptor(fd);
}

absl::StatusOr<struct stat> StatOpenFile(const Descriptor& file, absl::string_view path) {
  struct stat info;
  if (::fstat(file.get(), &info) != 0) return Failure("stat", path, errno);
  return info;
}

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, Descriptor file) : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Append(absl::string_view bytes) override {
    ARMATURE_RETURN_IF_ERROR(status_);
    while (!bytes.empty()) {
      const ssize_t written =
          RetryIfInterrupted([&] { return ::write(file_.get(), bytes.data(), bytes.size()); });
      if (written < 0) return status_ = Failure("write", path_, errno);
      bytes.remove_prefix(written);
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    ARMATURE_RETURN_IF_ERROR(status_);
    if (RetryIfInterrupted([&] { return ::fsync(file_.get()); }) != 0) {
      return status_ = Failure("sync", path_, errno);
    }
    return absl::OkStatus();
  }

  absl::Status Close() override {
    absl::Status result =
        std::exchange(status_, absl::FailedPreconditionError(absl::StrCat(path_, " is closed")));
    const int fd = file_.Release();
    // Linux closes the descriptor even if it says that it was interrupted.
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR && result.ok()) return Failure("close", path_, errno);
    return result;
  }

 private:
  const std::string path_;
  Descriptor file_;
  absl::Status status_;  // the first error, or that the file is closed
};

class PosixMappedFile final : public MappedFile {
 public:
  PosixMappedFile(const char* data, size_t size) : bytes_(data, size) {}
  ~PosixMappedFile() override {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  absl::string_view bytes() const override { return bytes_; }

 private:
  const absl::string_view bytes_;
};

class PosixFileLock final : public FileLock {
 public:
  explicit PosixFileLock(Descriptor file) : file_(std::move(file)) {}

 private:
  Descriptor file_;
};

}  // namespace

absl::StatusOr<std::string> PosixFileSystem::Read(absl::string_view path_view) {
  const std::string path(path_view);
  ARMATURE_ASSIGN_OR_RETURN(const Descriptor file, Open(path, O_RDONLY));
  ARMATURE_ASSIGN_OR_RETURN(const struct stat info, StatOpenFile(file, path));
  // One byte more than expected, so that the end is seen; files of /proc have size 0 and go on growing the
  // buffer.
  std::string bytes(info.st_size + 1, '\0');
  size_t size = 0;
  while (true) {
    const ssize_t count =
        RetryIfInterrupted([&] { return ::read(file.get(), &bytes[size], bytes.size() - size); });
    if (count < 0) return Failure("read", path, errno);
    size += count;
    if (count == 0) break;
    if (size == bytes.size()) bytes.resize(std::max<size_t>(4096, 2 * bytes.size()));
  }
  bytes.resize(size);
  return bytes;
}

absl::StatusOr<std::unique_ptr<MappedFile>> PosixFileSystem::Map(absl::string_view path_view) {
  const std::string path(path_view);
  ARMATURE_ASSIGN_OR_RETURN(const Descriptor file, Open(path, O_RDONLY));
  ARMATURE_ASSIGN_OR_RETURN(const struct stat info, StatOpenFile(file, path));
  if (S_ISDIR(info.st_mode)) return Failure("map", path, EISDIR);
  const size_t size = info.st_size;
  if (size == 0) return std::make_unique<PosixMappedFile>(nullptr, 0);  // mmap refuses to map nothing
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (data == MAP_FAILED) return Failure("map", path, errno);
  return std::make_unique<PosixMappedFile>(static_cast<const char*>(data), size);
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Create(absl::string_view path) {
  ARMATURE_ASSIGN_OR_RETURN(Descriptor file, Open(std::string(path), O_WRONLY | O_CREAT | O_TRUNC));
  return std::make_unique<PosixWritableFile>(std::string(path), std::move(file));
}

absl::StatusOr<std::unique_ptr<WritableFile>> PosixFileSystem::Append(absl::string_view path) {
  ARMATURE_ASSIGN_OR_RETURN(Descriptor file, Open(std::string(path), O_WRONLY | O_CREAT | O_APPEND));
  return std::make_unique<PosixWritableFile>(std::string(path), std::move(file));
}

absl::StatusOr<FileInfo> PosixFileSystem::Stat(absl::string_view path) {
  struct stat info;
  if (::stat(std::string(path).c_str(), &info) != 0) return Failure("stat", path, errno);
  FileInfo result;
  result.is_directory = S_ISDIR(info.st_mode);
  result.size_bytes = result.is_directory ? 0 : info.st_size;
  return result;
}

absl::StatusOr<std::vector<std::string>> PosixFileSystem::List(absl::string_view directory) {
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::opendir(std::string(directory).c_str()), ::closedir);
  if (stream == nullptr) return Failure("list", directory, errno);
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (errno != 0) return Failure("list", directory, errno);
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status PosixFileSystem::MakeDirectories(absl::string_view directory) {
  std::error_code error;
  std::filesystem::create_directories(std::string(directory), error);
  if (error) return Failure("make directory", directory, error.value());
  return absl::OkStatus();
}

absl::Status PosixFileSystem::Rename(absl::string_view from, absl::string_view to) {
  if (::rename(std::string(from).c_str(), std::string(to).c_str()) != 0) {
    return Failure("rename", absl::StrCat(from, " to ", to), errno);
  }
  return absl::OkStatus();
}

absl::Status PosixFileSystem::Remove(absl::string_view path) {
  if (::unlink(std::string(path).c_str()) != 0) return Failure("remove", path, errno);
  return absl::OkStatus();
}

absl::Status PosixFileSystem::RemoveTree(absl::string_view directory) {
  std::error_code error;
  std::filesystem::remove_all(std::string(directory), error);
  if (error) return Failure("remove", directory, error.value());
  return absl::OkStatus();
}

absl::Status PosixFileSystem::SyncDirectory(absl::string_view directory) {
  ARMATURE_ASSIGN_OR_RETURN(const Descriptor file, Open(std::string(directory), O_RDONLY | O_DIRECTORY));
  if (RetryIfInterrupted([&] { return ::fsync(file.get()); }) != 0) return Failure("sync", directory, errno);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> PosixFileSystem::Lock(absl::string_view path_view) {
  const std::string path(path_view);
  while (true) {
    ARMATURE_ASSIGN_OR_RETURN(Descriptor file, Open(path, O_RDWR | O_CREAT));
    if (RetryIfInterrupted([&] { return ::flock(file.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno != EWOULDBLOCK) return Failure("lock", path, errno);
      return absl::FailedPreconditionError(absl::StrCat(path, " is locked by another holder"));
    }
    ARMATURE_ASSIGN_OR_RETURN(const struct stat locked, StatOpenFile(file, path));
    struct stat named;
    // Someone may have removed or replaced the file before it was locked: then the lock is on a file without
    // a name.
    if (::stat(path.c_str(), &named) == 0 && named.st_ino == locked.st_ino && named.st_dev == locked.st_dev) {
      return std::make_unique<PosixFileLock>(std::move(file));
    }
  }
}

}  // namespace armature
