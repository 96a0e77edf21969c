// MakeCpuBackend: host memory and a team of threads.
#ifndef ARMATURE_TENSOR_CPU_CPU_BACKEND_H_
#define ARMATURE_TENSOR_CPU_CPU_BACKEND_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/backend.h"

namespace armature {

struct CpuOptions {
  // Threads that a kernel may use, the caller's included. Ignored if `team` is given.
  int threads = 1;
  // The host's own team, which must outlive the backend and serve nobody else meanwhile. Null: the backend
  // makes one.
  ThreadTeam* team = nullptr;
  // Bound on the memory taken from the system; 0: none.
  int64_t memory_limit_bytes = 0;
  // Where optimizer states lie; must outlive the backend. Null: with all the rest.
  RawMemory* optimizer_memory = nullptr;
  // Into how many parts a matrix product is cut. The library may sum a part in another order than the whole,
  // so that values depend on this number in their last bits; with 0, one part for each thread, they depend on
  // the threads.
  int matmul_parts = 0;
  // Only the scalar reference kernels: the oracle that tests compare with, some hundred times slower.
  bool reference_kernels = false;
};

// Errors: InvalidArgument if threads < 1, memory_limit_bytes < 0 or matmul_parts < 0.
absl::StatusOr<std::unique_ptr<Backend>> MakeCpuBackend(const CpuOptions& options = {});

}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_CPU_BACKEND_H_
