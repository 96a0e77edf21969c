// Storage: one allocation, given back to its backend when the last tensor that views it is gone.
#ifndef ARMATURE_TENSOR_STORAGE_H_
#define ARMATURE_TENSOR_STORAGE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "armature/tensor/allocator.h"
#include "armature/tensor/backend.h"

namespace armature {

class Storage {
 public:
  Storage(Backend& backend, void* data, int64_t size_bytes, MemoryCategory category)
      : backend_(backend), data_(data), size_bytes_(size_bytes), category_(category) {}
  ~Storage() { Evict(); }

  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Backend& backend() const { return backend_; }
  char* data() const { return static_cast<char*>(data_); }

  // Gives the memory back while the tensors stay; Reacquire gets memory for them again, uninitialised.
  void Evict() {
    if (data_ != nullptr) backend_.allocator().Free(data_, size_bytes_, category_);
    data_ = nullptr;
  }
  absl::Status Reacquire() {
    if (data_ != nullptr) return absl::OkStatus();
    absl::StatusOr<void*> data = backend_.allocator().Allocate(size_bytes_, category_);
    if (data.ok()) data_ = *data;
    return data.status();
  }

 private:
  Backend& backend_;
  void* data_;
  const int64_t size_bytes_;
  const MemoryCategory category_;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_STORAGE_H_
