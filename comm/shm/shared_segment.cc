#include "armature/comm/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace comm {
namespace {

absl::Status SegmentError(absl::string_view doing, absl::string_view name, int error) {
  const std::string text = absl::StrCat("shared memory: ", doing, " ", name, ": ", std::strerror(error));
  if (error == ENOSPC || error == ENOMEM || error == EFBIG) return absl::ResourceExhaustedError(text);
  return absl::UnavailableError(text);
}

struct flock LockOf(int rank) {
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  return lock;
}

}  // namespace

SharedSegment::SharedSegment(std::string name, int fd, int64_t size_bytes)
    : name_(std::move(name)), fd_(fd), size_bytes_(size_bytes) {}

SharedSegment::~SharedSegment() {
  Unlink();
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(size_bytes_));
  close(fd_);
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(int64_t size_bytes) {
  uint64_t random[2];
  if (getrandom(random, sizeof(random), 0) != sizeof(random)) return SegmentError("name", "a segment", errno);
  std::string name = absl::StrCat("/armature.", absl::Hex(random[0], absl::kZeroPad16), absl::Hex(random[1]));
  const int fd = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return SegmentError("create", name, errno);
  std::unique_ptr<SharedSegment> segment(new SharedSegment(std::move(name), fd, size_bytes));
  segment->named_ = true;
  // Reserves the memory now: a page that can't be had later would be a SIGBUS.
  const int error = posix_fallocate(fd, 0, size_bytes);
  if (error != 0)
    return SegmentError(absl::StrCat("reserve ", size_bytes, " bytes for"), segment->name(), error);
  ARMATURE_RETURN_IF_ERROR(segment->Map());
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(absl::string_view name,
                                                                   int64_t size_bytes) {
  std::string path(name);
  const int fd = shm_open(path.c_str(), O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return SegmentError("open", name, errno);
  std::unique_ptr<SharedSegment> segment(new SharedSegment(std::move(path), fd, size_bytes));
  struct stat info = {};
  if (fstat(fd, &info) != 0) return SegmentError("look at", name, errno);
  if (info.st_size != size_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("shared memory: ", name, " has ", info.st_size, " bytes and should have ", size_bytes));
  }
  ARMATURE_RETURN_IF_ERROR(segment->Map());
  return segment;
}

absl::Status SharedSegment::Map() {
  void* const data =
      mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (data == MAP_FAILED) return SegmentError("map", name_, errno);
  data_ = static_cast<char*>(data);
  return absl::OkStatus();
}

void SharedSegment::Unlink() {
  if (std::exchange(named_, false)) shm_unlink(name_.c_str());
}

absl::Status SharedSegment::ShowLife(int rank) {
  struct flock lock = LockOf(rank);
  return fcntl(fd_, F_OFD_SETLK, &lock) == 0 ? absl::OkStatus()
                                             : SegmentError("lock a byte of", name_, errno);
}

bool SharedSegment::Lives(int rank) const {
  struct flock lock = LockOf(rank);
  return fcntl(fd_, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

std::string SharedMemoryDomain() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat folder = {};
  if (boot.empty() || stat("/dev/shm", &folder) != 0) return absl::StrCat("alone in process ", getpid());
  return absl::StrCat(boot, "/", folder.st_dev, "/", folder.st_ino, "/", geteuid());
}

}  // namespace comm
}  // namespace armature
