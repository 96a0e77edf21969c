// Whole parameters out of the slices that ranks hold.
#ifndef ARMATURE_ENGINE_WHOLE_ARRAYS_H_
#define ARMATURE_ENGINE_WHOLE_ARRAYS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "armature/tensor/named_buffer.h"
#include "armature/tensor/parameter.h"
#include "armature/tensor/sharded_array.h"

namespace armature {

// Calls `sink` with each of the parameters, whole and in f32, in their order; one is in memory at a time. The
// first error ends it.
// Errors: Unimplemented, with the name, if a part of one is in no slice: it lies in another process.
// ResourceExhausted.
absl::Status ForEachWhole(const std::vector<ParameterSpec>& parameters, absl::Span<const ShardedArray> slices,
                          absl::FunctionRef<absl::Status(const NamedBuffer&)> sink);

}  // namespace armature

#endif  // ARMATURE_ENGINE_WHOLE_ARRAYS_H_
