#include "armature/engine/whole_arrays.h"

#include <memory>
#include <new>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace {

using SlicesOfOne = std::vector<const ShardedArray*>;

bool IsWhole(const ShardedArray& slice) {
  return slice.slice == WholeSlice(slice.global_shape) && slice.strides.empty() &&
         slice.local.dtype == DType::kF32;
}

absl::Status CheckComplete(const ParameterSpec& parameter, const SlicesOfOne& slices) {
  int64_t elements = 0;
  for (const ShardedArray* slice : slices) elements += slice->slice.shape.num_elements();
  if (elements == parameter.global_shape.num_elements()) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("parameter ", parameter.name, ": this process has ", elements,
                                               " of its ", parameter.global_shape.num_elements(),
                                               " elements; save a checkpoint instead"));
}

absl::Status Assemble(const ParameterSpec& parameter, const SlicesOfOne& slices,
                      absl::FunctionRef<absl::Status(const NamedBuffer&)> sink) {
  NamedBuffer whole = {parameter.name, parameter.global_shape, {}};
  if (slices.size() == 1 && IsWhole(*slices[0])) {
    whole.view = slices[0]->local;
    return sink(whole);
  }
  ARMATURE_RETURN_IF_ERROR(CheckComplete(parameter, slices));
  const int64_t elements = parameter.global_shape.num_elements();
  const std::unique_ptr<float[]> memory(new (std::nothrow) float[elements]);
  if (memory == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for parameter ", parameter.name, ", ", elements, " elements"));
  }
  for (const ShardedArray* slice : slices) {
    CopyShared(slice->slice, slice->local.dtype, static_cast<const char*>(slice->local.data),
               WholeSlice(parameter.global_shape), DType::kF32, reinterpret_cast<char*>(memory.get()),
               slice->strides);
  }
  whole.view.data = memory.get();
  whole.view.count = elements;
  return sink(whole);
}

}  // namespace

absl::Status ForEachWhole(const std::vector<ParameterSpec>& parameters, absl::Span<const ShardedArray> slices,
                          absl::FunctionRef<absl::Status(const NamedBuffer&)> sink) {
  absl::flat_hash_map<absl::string_view, SlicesOfOne> by_name;
  for (const ShardedArray& slice : slices) by_name[slice.name].push_back(&slice);
  for (const ParameterSpec& parameter : parameters) {
    ARMATURE_RETURN_IF_ERROR(Assemble(parameter, by_name[parameter.name], sink));
  }
  return absl::OkStatus();
}

}  // namespace armature
