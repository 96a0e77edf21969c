// MappedMemory: memory in files of a directory, for what is used seldom and is larger than memory.
#ifndef ARMATURE_TENSOR_MAPPED_MEMORY_H_
#define ARMATURE_TENSOR_MAPPED_MEMORY_H_

#include <cstdint>
#include <string>
#include <utility>

#include "armature/tensor/allocator.h"

namespace armature {

// Each allocation is a file of its own without a name: it is gone when it is released, or with the process.
// Its blocks are reserved at once, so that a full disk is an error of Acquire and no signal later. Stateless
// but for the directory; thread-safe.
class MappedMemory : public RawMemory {
 public:
  explicit MappedMemory(std::string directory) : directory_(std::move(directory)) {}

  // Zeros. Errors: NotFound, PermissionDenied or ResourceExhausted, naming the directory.
  absl::StatusOr<void*> Acquire(int64_t bytes) override;
  void Release(void* data, int64_t bytes) override;

 private:
  const std::string directory_;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_MAPPED_MEMORY_H_
