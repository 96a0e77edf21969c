// What every operation begins and ends with. Private to tensor/ops.
#ifndef ARMATURE_TENSOR_OPS_OP_SUPPORT_H_
#define ARMATURE_TENSOR_OPS_OP_SUPPORT_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/tape.h"
#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

// The first error among tensors that an operation needs.
inline absl::Status FirstError(std::initializer_list<const Tensor*> inputs) {
  for (const Tensor* input : inputs) {
    if (!input->ok()) return input->status();
  }
  return absl::OkStatus();
}

// "[2, 3] f32": a tensor in an error's message.
inline std::string Describe(const Tensor& tensor) {
  return absl::StrCat(tensor.shape().ToString(), " ", Name(tensor.dtype()));
}

// A failed tensor: "Linear: x [2, 3] f32, w [4, 5] f32 ...".
template <typename... Parts>
Tensor Invalid(const Parts&... parts) {
  return Tensor::Failed(absl::InvalidArgumentError(absl::StrCat(parts...)));
}

inline Stream& StreamOf(const Tensor& tensor) { return tensor.backend().compute_stream(); }

// Calls `kernel`, or says that the backend has none.
template <typename Args>
absl::Status Launch(Backend& backend, absl::Status (*kernel)(Stream&, const Args&), const Args& args,
                    absl::string_view name) {
  if (kernel == nullptr)
    return absl::UnimplementedError(absl::StrCat(name, ": this backend has no kernel for it"));
  return kernel(backend.compute_stream(), args);
}

// A new tensor for an operation's result.
inline Tensor NewLike(const Tensor& like, const Shape& shape, DType dtype) {
  return Tensor::Empty(like.backend(), shape, dtype, MemoryCategory::kActivations);
}
inline Tensor NewLike(const Tensor& like) { return NewLike(like, like.shape(), like.dtype()); }

// f64 for f64, otherwise f32: the type of statistics, losses and other sums.
inline DType StatisticsDType(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_OP_SUPPORT_H_
