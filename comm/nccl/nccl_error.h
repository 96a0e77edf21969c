// NCCL's and CUDA's results as Status.
#ifndef ARMATURE_COMM_NCCL_NCCL_ERROR_H_
#define ARMATURE_COMM_NCCL_NCCL_ERROR_H_

#include <cuda_runtime.h>
#include <nccl.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace armature {
namespace comm {

inline absl::Status CudaStatus(cudaError_t result, absl::string_view doing) {
  if (result == cudaSuccess) return absl::OkStatus();
  const std::string text = absl::StrCat(doing, ": ", cudaGetErrorString(result));
  return result == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(text)
                                             : absl::UnavailableError(text);
}

// ncclInProgress is no error: the caller polls.
inline absl::Status NcclStatus(ncclResult_t result, absl::string_view doing) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  const std::string text = absl::StrCat(doing, ": ", ncclGetErrorString(result));
  if (result == ncclInvalidArgument || result == ncclInvalidUsage) return absl::InternalError(text);
  return absl::UnavailableError(text);
}

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_NCCL_NCCL_ERROR_H_
