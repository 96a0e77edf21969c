#include "armature/tensor/cpu/cpu_backend.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/tensor/cpu/cpu_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/reference/reference_kernels.h"

namespace armature {
namespace {

class CpuBackend : public Backend {
 public:
  CpuBackend(std::unique_ptr<ThreadTeam> own_team, ThreadTeam& team, const CpuOptions& options)
      : own_team_(std::move(own_team)),
        stream_(team, options.matmul_parts),
        allocator_(HostMemory(), options.memory_limit_bytes),
        kernels_(options.reference_kernels ? ReferenceKernels() : CpuKernels()) {
    if (options.optimizer_memory != nullptr) {
      allocator_.SetMemoryOf(MemoryCategory::kOptimizer, *options.optimizer_memory);
    }
  }

  Device device() const override { return Device{}; }
  Allocator& allocator() override { return allocator_; }
  Stream& compute_stream() override { return stream_; }
  const KernelTable& kernels() const override { return kernels_; }

  absl::Status Copy(const BufferView& to, const BufferView& from) override {
    if (to.count != from.count || to.dtype != from.dtype) {
      return absl::InvalidArgumentError(
          absl::StrCat("copy of ", from.count, " ", Name(from.dtype), " to ", to.count, " ", Name(to.dtype)));
    }
    if (to.count > 0) std::memmove(to.data, from.data, from.size_bytes());
    return absl::OkStatus();
  }

 private:
  std::unique_ptr<ThreadTeam> own_team_;
  CpuStream stream_;
  Allocator allocator_;
  const KernelTable kernels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("CpuOptions.threads is ", options.threads, ", must be at least 1"));
  }
  if (options.memory_limit_bytes < 0) {
    return absl::InvalidArgumentError(absl::StrCat("CpuOptions.memory_limit_bytes is ",
                                                   options.memory_limit_bytes, ", must not be negative"));
  }
  if (options.matmul_parts < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("CpuOptions.matmul_parts is ", options.matmul_parts, ", must not be negative"));
  }
  std::unique_ptr<ThreadTeam> own_team;
  if (options.team == nullptr) own_team = std::make_unique<ThreadTeam>(options.threads);
  ThreadTeam& team = options.team != nullptr ? *options.team : *own_team;
  return std::make_unique<CpuBackend>(std::move(own_team), team, options);
}

}  // namespace armature
