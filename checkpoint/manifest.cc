#include "armature/checkpoint/manifest.h"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "armature/base/crc32c.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/safetensors_format.h"
#include "armature/tensor/dtype.h"

namespace armature {
namespace {

using Numbers = google::protobuf::RepeatedField<int64_t>;

absl::Span<const int64_t> SpanOf(const Numbers& numbers) {
  return absl::MakeConstSpan(numbers.data(), numbers.size());
}

// A name that can't lead out of the directory, on any system.
bool IsPlainName(absl::string_view name) {
  if (name.empty() || name[0] == '.' || name == kManifestFileName) return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '-' || c == '_' || c == '.'; });
}

absl::Status CheckFiles(const Manifest& manifest) {
  absl::flat_hash_set<absl::string_view> names;
  for (const ShardFile& file : manifest.files()) {
    const std::string quoted = absl::StrCat("file \"", absl::Utf8SafeCEscape(file.name()), "\"");
    if (!IsPlainName(file.name()))
      return absl::InvalidArgumentError(quoted + " is not a plain name in the directory");
    if (!names.insert(file.name()).second) return absl::InvalidArgumentError(quoted + " is listed twice");
    if (file.header_bytes() < 0 || file.header_bytes() > file.size_bytes()) {
      return absl::InvalidArgumentError(
          absl::StrCat(quoted, " has ", file.header_bytes(), " bytes of header in ", file.size_bytes()));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSlice(const SavedSlice& saved, DType dtype, const Shape& global_shape,
                        const Manifest& manifest) {
  ARMATURE_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(SpanOf(saved.shape())));
  ARMATURE_RETURN_IF_ERROR(CheckSliceIn(SliceOf(saved), global_shape));
  ARMATURE_ASSIGN_OR_RETURN(const int64_t size_bytes, SizeBytes(shape, dtype));
  if (saved.file() < 0 || saved.file() >= manifest.files_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slice in file ", saved.file(), " of ", manifest.files_size()));
  }
  const ShardFile& file = manifest.files(saved.file());
  if (saved.offset_bytes() < file.header_bytes() || size_bytes > file.size_bytes() - saved.offset_bytes()) {
    return absl::InvalidArgumentError(absl::StrCat("slice of ", size_bytes, " bytes at ",
                                                   saved.offset_bytes(), " is not in the data of file ",
                                                   file.name()));
  }
  return absl::OkStatus();
}

absl::Status CheckTensor(const SavedTensor& tensor, const Manifest& manifest) {
  ARMATURE_ASSIGN_OR_RETURN(const DType dtype, ParseDType(tensor.dtype()));
  ARMATURE_ASSIGN_OR_RETURN(const Shape shape, Shape::Create(SpanOf(tensor.shape())));
  std::vector<Slice> slices;
  for (const SavedSlice& saved : tensor.slices()) {
    ARMATURE_RETURN_IF_ERROR(CheckSlice(saved, dtype, shape, manifest));
    slices.push_back(SliceOf(saved));
  }
  return CheckSlicesTile(std::move(slices), shape);
}

bool SameShape(const SavedTensor& a, const SavedTensor& b) { return SpanOf(a.shape()) == SpanOf(b.shape()); }

}  // namespace

Shape ShapeOf(const SavedTensor& tensor) { return Shape(SpanOf(tensor.shape())); }

Slice SliceOf(const SavedSlice& saved) {
  return {std::vector<int64_t>(saved.offset().begin(), saved.offset().end()), Shape(SpanOf(saved.shape()))};
}

absl::Status AddShards(absl::Span<const Shard> shards, Manifest& manifest) {
  std::map<std::string, SavedTensor> tensors;
  for (const Shard& shard : shards) {
    const int file = manifest.files_size();
    *manifest.add_files() = shard.file();
    for (const SavedTensor& part : shard.tensors()) {
      const auto inserted = tensors.emplace(part.name(), part);
      SavedTensor& whole = inserted.first->second;
      if (inserted.second) {
        whole.clear_slices();
      } else if (whole.dtype() != part.dtype() || !SameShape(whole, part)) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor ", part.name(), " is ", whole.dtype(), ShapeOf(whole).ToString(),
                         " in one slice and ", part.dtype(), ShapeOf(part).ToString(), " in another"));
      }
      for (const SavedSlice& slice : part.slices()) {
        SavedSlice& added = *whole.add_slices();
        added = slice;
        added.set_file(file);
      }
    }
  }
  for (auto& tensor : tensors) *manifest.add_tensors() = std::move(tensor.second);
  return CheckManifest(manifest);
}

absl::Status CheckManifest(const Manifest& manifest) {
  ARMATURE_RETURN_IF_ERROR(CheckFiles(manifest));
  absl::flat_hash_set<absl::string_view> names;
  for (const SavedTensor& tensor : manifest.tensors()) {
    if (!names.insert(tensor.name()).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name(), " is listed twice"));
    }
    ARMATURE_RETURN_IF_ERROR(CheckTensor(tensor, manifest), "tensor ", tensor.name());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> EncodeManifest(const Manifest& manifest) {
  ManifestFile file;
  constexpr size_t kMaxBytes =
      std::numeric_limits<int>::max() - 64;  // protobuf's limit, less the fields around it
  if (manifest.ByteSizeLong() > kMaxBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a manifest of ", manifest.ByteSizeLong(), " bytes is too long"));
  }
  manifest.SerializeToString(file.mutable_manifest());
  file.set_crc32c(Crc32c(file.manifest()));
  return file.SerializeAsString();
}

absl::StatusOr<Manifest> DecodeManifest(absl::string_view bytes) {
  ManifestFile file;
  if (bytes.size() > static_cast<size_t>(std::numeric_limits<int>::max()) ||
      !file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return absl::DataLossError("cut short or overwritten");
  }
  if (Crc32c(file.manifest()) != file.crc32c()) return absl::DataLossError("checksum does not match");
  Manifest manifest;
  // An empty file parses, and its checksum is right: only the format tells it from a manifest.
  if (!manifest.ParseFromString(file.manifest()) || manifest.format() < 1)
    return absl::DataLossError("not a manifest");
  if (manifest.format() > kManifestFormat) {
    return absl::FailedPreconditionError(absl::StrCat(
        "written in format ", manifest.format(), ", and this program knows ", kManifestFormat, " at most"));
  }
  const absl::Status status = CheckManifest(manifest);
  if (!status.ok()) return absl::DataLossError(status.message());
  return manifest;
}

}  // namespace armature
