#include "armature/tensor/allocator.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kHugePage = int64_t{2} << 20;

// Rounds up to one of eight sizes per doubling: at most an eighth is wasted, and a step's tensors find the
// blocks of the step before.
int64_t RoundUp(int64_t bytes) {
  int64_t granule = 512;
  while (bytes > granule * 16) granule *= 2;
  return (bytes + granule - 1) / granule * granule;
}

class HostMemoryImpl : public RawMemory {
 public:
  absl::StatusOr<void*> Acquire(int64_t bytes) override {
    const bool huge = bytes >= kHugePage;
    const int64_t alignment = huge ? kHugePage : kAlignment;
    void* data = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    if (data == nullptr)
      return absl::ResourceExhaustedError(absl::StrCat("no host memory for ", bytes, " bytes"));
    // Advice only: without huge pages the program is right and slower.
    if (huge) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }
  void Release(void* data, int64_t) override { std::free(data); }
};

// What zero bytes get: an address that is never read or written.
alignas(kAlignment) char nothing[1];

}  // namespace

absl::string_view Name(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kParameters:
      return "parameters";
    case MemoryCategory::kGradients:
      return "gradients";
    case MemoryCategory::kOptimizer:
      return "optimizer";
    case MemoryCategory::kActivations:
      return "activations";
    case MemoryCategory::kCommunication:
      return "communication";
    case MemoryCategory::kOther:
      return "other";
  }
  return "unknown";
}

RawMemory& HostMemory() {
  static HostMemoryImpl memory;
  return memory;
}

Allocator::Allocator(RawMemory& memory, int64_t limit_bytes) : memory_(memory), limit_bytes_(limit_bytes) {}

Allocator::~Allocator() { ReleaseCached(); }

void Allocator::SetMemoryOf(MemoryCategory category, RawMemory& memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  memory_of_[static_cast<int>(category)] = &memory;
}

absl::StatusOr<void*> Allocator::Allocate(int64_t bytes, MemoryCategory category) {
  if (bytes < 0) return absl::InvalidArgumentError(absl::StrCat("allocation of ", bytes, " bytes"));
  if (bytes == 0) return static_cast<void*>(nothing);
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t rounded = RoundUp(bytes);
  void* data = nullptr;
  RawMemory* own = memory_of_[static_cast<int>(category)];
  auto cached = cached_.find(rounded);
  if (own != nullptr) {
    ARMATURE_ASSIGN_OR_RETURN(data, own->Acquire(bytes), Name(category));
  } else if (cached != cached_.end() && !cached->second.empty()) {
    data = cached->second.back();
    cached->second.pop_back();
  } else {
    absl::StatusOr<void*> fresh = AcquireLocked(rounded);
    if (!fresh.ok()) return ExhaustedLocked(bytes, category);
    data = *fresh;
  }
  for (MemoryCounters* counter : {&counters_[static_cast<int>(category)], &total_}) {
    counter->live_bytes += bytes;
    counter->peak_bytes = std::max(counter->peak_bytes, counter->live_bytes);
  }
  return data;
}

absl::StatusOr<void*> Allocator::AcquireLocked(int64_t rounded) {
  const auto fits = [&] { return limit_bytes_ == 0 || reserved_bytes_ + rounded <= limit_bytes_; };
  if (!fits()) ReleaseCachedLocked();
  if (!fits()) return absl::ResourceExhaustedError("limit");
  absl::StatusOr<void*> data = memory_.Acquire(rounded);
  if (!data.ok()) {
    ReleaseCachedLocked();
    ARMATURE_ASSIGN_OR_RETURN(data, memory_.Acquire(rounded));
  }
  reserved_bytes_ += rounded;
  return data;
}

void Allocator::Free(void* data, int64_t bytes, MemoryCategory category) {
  if (bytes == 0) return;
  std::lock_guard<std::mutex> lock(mutex_);
  if (RawMemory* own = memory_of_[static_cast<int>(category)]; own != nullptr) {
    own->Release(data, bytes);
  } else {
    cached_[RoundUp(bytes)].push_back(data);
  }
  counters_[static_cast<int>(category)].live_bytes -= bytes;
  total_.live_bytes -= bytes;
}

absl::Status Allocator::ExhaustedLocked(int64_t bytes, MemoryCategory category) const {
  std::string message = absl::StrCat("no memory for ", bytes, " bytes of ", Name(category));
  if (limit_bytes_ > 0) absl::StrAppend(&message, " within the limit of ", limit_bytes_, " bytes");
  absl::StrAppend(&message, "; in use:");
  for (int i = 0; i < kNumMemoryCategories; ++i) {
    if (counters_[i].live_bytes == 0) continue;
    absl::StrAppend(&message, " ", Name(static_cast<MemoryCategory>(i)), " ", counters_[i].live_bytes);
  }
  absl::StrAppend(&message, " total ", total_.live_bytes);
  return absl::ResourceExhaustedError(message);
}

MemoryCounters Allocator::counters(MemoryCategory category) const {
  std::lock_guard<std::mutex> lock(mutex_);
  return counters_[static_cast<int>(category)];
}

MemoryCounters Allocator::total() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return total_;
}

int64_t Allocator::reserved_bytes() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return reserved_bytes_;
}

void Allocator::ResetPeaks() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (MemoryCounters& counter : counters_) counter.peak_bytes = counter.live_bytes;
  total_.peak_bytes = total_.live_bytes;
}

void Allocator::ReleaseCached() {
  std::lock_guard<std::mutex> lock(mutex_);
  ReleaseCachedLocked();
}

void Allocator::ReleaseCachedLocked() {
  for (auto& [rounded, blocks] : cached_) {
    for (void* data : blocks) memory_.Release(data, rounded);
    reserved_bytes_ -= rounded * static_cast<int64_t>(blocks.size());
  }
  cached_.clear();
}

}  // namespace armature
