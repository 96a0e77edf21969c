// Backend: one device's memory, stream and kernels. An engine makes one for each of its local ranks; there is
// no process-wide device.
//
//   CpuOptions options;
//   options.threads = 2;
//   ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Backend> backend, MakeCpuBackend(options));   //
//   tensor/cpu/cpu_backend.h Tensor x = Tensor::Empty(*backend, {2, 3}, DType::kF32,
//   MemoryCategory::kActivations);
#ifndef ARMATURE_TENSOR_BACKEND_H_
#define ARMATURE_TENSOR_BACKEND_H_

#include "absl/status/status.h"
#include "armature/tensor/allocator.h"
#include "armature/tensor/buffer.h"
#include "armature/tensor/device.h"
#include "armature/tensor/kernels.h"
#include "armature/tensor/stream.h"

namespace armature {

// Thread-compatible: one thread at a time enqueues work. Must outlive all of its tensors.
class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  virtual Allocator& allocator() = 0;
  virtual Stream& compute_stream() = 0;
  virtual const KernelTable& kernels() const = 0;

  // Copies between this device and the host, or within the device, in the order of the compute stream. On
  // return the source may be reused, and a destination on the host is readable. Errors: InvalidArgument if
  // counts or dtypes differ; those of the device.
  virtual absl::Status Copy(const BufferView& to, const BufferView& from) = 0;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_BACKEND_H_
