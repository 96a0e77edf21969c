#include "armature/checkpoint/restore.h"

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "armature/base/status_macros.h"
#include "armature/tensor/convert.h"
#include "armature/checkpoint/manifest.h"

namespace armature {
namespace {

using TensorsByName = absl::flat_hash_map<std::string, const SavedTensor*>;

TensorsByName IndexByName(const Manifest& manifest) {
  TensorsByName by_name;
  for (const SavedTensor& tensor : manifest.tensors()) by_name[tensor.name()] = &tensor;
  return by_name;
}

// What stands between a saved tensor and its wanted slice; empty if nothing does.
std::string Difference(const SavedTensor& saved, const ShardedArray& wanted, const RestoreOptions& options) {
  if (ShapeOf(saved) != wanted.global_shape) {
    return absl::StrCat(wanted.name, " has shape ", ShapeOf(saved).ToString(), " in it and ",
                        wanted.global_shape.ToString(), " here");
  }
  const absl::StatusOr<DType> dtype = ParseDType(saved.dtype());
  if (dtype.ok() &&
      (*dtype == wanted.local.dtype || (options.convert_dtypes && CanConvert(*dtype, wanted.local.dtype)))) {
    return "";
  }
  return absl::StrCat(wanted.name, " is ", saved.dtype(), " in it and ", Name(wanted.local.dtype), " here");
}

std::vector<std::string> Differences(const Manifest& manifest, absl::Span<const ShardedArray> into,
                                     const RestoreOptions& options) {
  const TensorsByName by_name = IndexByName(manifest);
  absl::flat_hash_set<absl::string_view> wanted;
  std::vector<std::string> differences;
  for (const ShardedArray& array : into) {
    const bool is_first = wanted.insert(array.name).second;
    const auto saved = by_name.find(array.name);
    if (saved != by_name.end()) {
      std::string difference = Difference(*saved->second, array, options);
      if (!difference.empty()) differences.push_back(std::move(difference));
    } else if (is_first) {
      differences.push_back(
          absl::StrCat(array.name, " ", array.global_shape.ToString(), " is missing in it"));
    }
  }
  for (const SavedTensor& tensor : manifest.tensors()) {
    if (options.ignore_unused || wanted.contains(tensor.name())) continue;
    differences.push_back(absl::StrCat(tensor.name(), " ", ShapeOf(tensor).ToString(), " is only in it"));
  }
  return differences;
}

}  // namespace

absl::Status CheckArray(const ShardedArray& array) {
  ARMATURE_RETURN_IF_ERROR(CheckSliceIn(array.slice, array.global_shape), "tensor ", array.name);
  const int64_t count = array.slice.shape.num_elements();
  if (array.local.count != count || (count > 0 && array.local.data == nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", array.name, ": a buffer of ", array.local.count,
                                                   " elements for a slice of shape ",
                                                   array.slice.shape.ToString()));
  }
  if (array.local.device.kind != Device::Kind::kCpu) {
    return absl::InvalidArgumentError(absl::StrCat("tensor ", array.name, " does not lie in host memory"));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(const Manifest& manifest, absl::Span<const ShardedArray> into,
                       const RestoreOptions& options) {
  constexpr size_t kMaxShown = 5;
  for (const ShardedArray& array : into) ARMATURE_RETURN_IF_ERROR(CheckArray(array));
  std::vector<std::string> differences = Differences(manifest, into, options);
  if (differences.empty()) return absl::OkStatus();
  const size_t num_differences = differences.size();
  if (num_differences > kMaxShown) {
    differences.resize(kMaxShown);
    differences.push_back(absl::StrCat("and ", num_differences - kMaxShown, " more"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the checkpoint does not fit: ", absl::StrJoin(differences, "; ")));
}

void CopyInto(const Manifest& manifest, const VerifiedShards& shards, absl::Span<const ShardedArray> into) {
  const TensorsByName by_name = IndexByName(manifest);
  for (const ShardedArray& array : into) {
    const SavedTensor& tensor = *by_name.at(array.name);
    const absl::StatusOr<DType> dtype = ParseDType(tensor.dtype());
    if (!dtype.ok()) continue;  // never, after CheckManifest
    for (const SavedSlice& saved : tensor.slices()) {
      CopyShared(SliceOf(saved), *dtype, shards.BytesOf(tensor, saved).data(), array.slice, array.local.dtype,
                 static_cast<char*>(array.local.data), {}, array.strides);
    }
  }
}

}  // namespace armature
