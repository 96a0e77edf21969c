// SharedSegment: memory that the processes of one host share, and a sign of life for each of them.
//
// The first rank makes the segment under a random name, the others open it, and the name is taken away once
// all have: whatever happens later, nothing stays behind. Each rank holds a lock on one byte of the file; the
// kernel takes it away when the process dies, however it dies, so a peer's life needs no heartbeat and no
// process id.
#ifndef ARMATURE_COMM_SHM_SHARED_SEGMENT_H_
#define ARMATURE_COMM_SHM_SHARED_SEGMENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace armature {
namespace comm {

class SharedSegment {
 public:
  // Zeroed memory under a new name. Errors: ResourceExhausted if the host has too little shared memory;
  // Unavailable.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(int64_t size_bytes);
  // Errors: Unavailable naming the segment; InvalidArgument if its size is another.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(absl::string_view name, int64_t size_bytes);
  ~SharedSegment();

  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  char* data() const { return data_; }
  const std::string& name() const { return name_; }

  // Takes the name away; the memory stays for those who have it.
  void Unlink();
  // Shows that `rank` lives, until this object is destroyed or the process ends. Errors: Unavailable.
  absl::Status ShowLife(int rank);
  // True while the process that showed the life of `rank` (another than this object's own) lives.
  bool Lives(int rank) const;

 private:
  SharedSegment(std::string name, int fd, int64_t size_bytes);
  absl::Status Map();

  const std::string name_;
  const int fd_;
  const int64_t size_bytes_;
  char* data_ = nullptr;
  bool named_ = false;  // this object made the name and has not taken it away
};

// Text that is the same for two processes exactly if a segment of one can be opened by the other.
std::string SharedMemoryDomain();

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_SHM_SHARED_SEGMENT_H_
