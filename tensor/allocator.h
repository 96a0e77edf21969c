// Allocator: one device's memory, reused between steps and counted by what it is for.
//
//   absl::StatusOr<void*> p = allocator.Allocate(bytes, MemoryCategory::kActivations);
//   ...
//   allocator.Free(*p, bytes, MemoryCategory::kActivations);
//   allocator.counters(MemoryCategory::kActivations).peak_bytes;
//
// The counters are exact: the bytes asked for, not what the caching rounded them to. Tests and the planner
// read them.
#ifndef ARMATURE_TENSOR_ALLOCATOR_H_
#define ARMATURE_TENSOR_ALLOCATOR_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace armature {

enum class MemoryCategory : uint8_t {
  kParameters,  // compute copies and f32 masters
  kGradients,
  kOptimizer,
  kActivations,  // what the forward saves, and what lives only inside an operation
  kCommunication,
  kOther,  // batches, scratch
};
constexpr int kNumMemoryCategories = 6;

// "parameters", "gradients", "optimizer", "activations", "communication", "other".
absl::string_view Name(MemoryCategory category);

struct MemoryCounters {
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;
};

// Where an Allocator gets its memory. Addresses are aligned to at least 64 bytes.
class RawMemory {
 public:
  virtual ~RawMemory() = default;
  virtual absl::StatusOr<void*> Acquire(int64_t bytes) = 0;  // bytes > 0
  virtual void Release(void* data, int64_t bytes) = 0;
};

// Thread-safe.
class Allocator {
 public:
  // `limit_bytes` bounds what is taken from `memory` (0: no bound). `memory` must outlive the allocator.
  explicit Allocator(RawMemory& memory, int64_t limit_bytes = 0);
  // Returns the cached memory. All allocations must have been freed.
  ~Allocator();

  Allocator(const Allocator&) = delete;
  Allocator& operator=(const Allocator&) = delete;

  // Memory of that category comes from `memory`, which must outlive the allocator: it is not cached and not
  // part of reserved_bytes or the limit. Before the first allocation of the category.
  void SetMemoryOf(MemoryCategory category, RawMemory& memory);

  // Uninitialised memory, aligned to 64 bytes; 0 bytes give a valid address of nothing.
  // Errors: InvalidArgument if bytes < 0; ResourceExhausted, with the live bytes of each category, if neither
  // the cache nor `memory` has room, or the limit would be passed.
  absl::StatusOr<void*> Allocate(int64_t bytes, MemoryCategory category);
  // The same bytes and category as in Allocate.
  void Free(void* data, int64_t bytes, MemoryCategory category);

  MemoryCounters counters(MemoryCategory category) const;
  MemoryCounters total() const;
  // Bytes held from `memory`, cached ones included.
  int64_t reserved_bytes() const;
  // Sets every peak to what is live now.
  void ResetPeaks();
  // Gives cached memory back to `memory`.
  void ReleaseCached();

 private:
  absl::StatusOr<void*> AcquireLocked(int64_t rounded);
  void ReleaseCachedLocked();
  absl::Status ExhaustedLocked(int64_t bytes, MemoryCategory category) const;

  RawMemory& memory_;
  std::array<RawMemory*, kNumMemoryCategories> memory_of_ = {};  // null: memory_
  const int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::map<int64_t, std::vector<void*>> cached_;  // by rounded size
  int64_t reserved_bytes_ = 0;
  std::array<MemoryCounters, kNumMemoryCategories> counters_;
  MemoryCounters total_;
};

// Host memory; blocks of 2 MiB and more ask for huge pages. Stateless: one for the whole process.
RawMemory& HostMemory();

}  // namespace armature

#endif  // ARMATURE_TENSOR_ALLOCATOR_H_
