#include "armature/checkpoint/shard.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/crc32c.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/manifest.h"
#include "armature/checkpoint/safetensors_writer.h"
#include "armature/tensor/dtype.h"

namespace armature {
namespace {

std::string NameInFile(const HostSlice& slice) {
  return slice.slice == WholeSlice(slice.global_shape) ? slice.name
                                                       : absl::StrCat(slice.name, slice.slice.ToString());
}

absl::Status CheckSize(const HostSlice& slice) {
  ARMATURE_RETURN_IF_ERROR(CheckSliceIn(slice.slice, slice.global_shape));
  ARMATURE_ASSIGN_OR_RETURN(const int64_t size_bytes, SizeBytes(slice.slice.shape, slice.dtype));
  if (size_bytes == static_cast<int64_t>(slice.bytes.size())) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a buffer of ", slice.bytes.size(), " bytes for shape ",
                                                 slice.slice.shape.ToString(), " of ", Name(slice.dtype)));
}

// The slices that this rank writes, by their names in the file.
using SlicesByName = std::map<std::string, const HostSlice*>;

absl::StatusOr<SlicesByName> PrimarySlices(absl::Span<const HostSlice> slices) {
  SlicesByName by_name;
  for (const HostSlice& slice : slices) {
    if (!slice.primary) continue;
    ARMATURE_RETURN_IF_ERROR(CheckSize(slice), "tensor ", slice.name);
    if (slice.slice.shape.num_elements() == 0 && slice.global_shape.num_elements() > 0) continue;
    if (!by_name.emplace(NameInFile(slice), &slice).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", NameInFile(slice), " is given twice"));
    }
  }
  return by_name;
}

absl::Status CheckAgreement(const SavedTensor& tensor, const HostSlice& slice) {
  if (tensor.dtype() == Name(slice.dtype) && ShapeOf(tensor) == slice.global_shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", slice.name, " is ", tensor.dtype(), ShapeOf(tensor).ToString(),
                   " in one slice and ", Name(slice.dtype), slice.global_shape.ToString(), " in another"));
}

// Adds the tensors of the slices to `shard`, and returns their indices there.
absl::StatusOr<std::map<std::string, int>> AddTensors(absl::Span<const HostSlice> slices, Shard& shard) {
  std::map<std::string, int> indices;
  for (const HostSlice& slice : slices) {
    const auto inserted = indices.emplace(slice.name, shard.tensors_size());
    if (!inserted.second) {
      ARMATURE_RETURN_IF_ERROR(CheckAgreement(shard.tensors(inserted.first->second), slice));
      continue;
    }
    SavedTensor& tensor = *shard.add_tensors();
    tensor.set_name(slice.name);
    tensor.set_dtype(std::string(Name(slice.dtype)));
    for (int64_t dim : slice.global_shape.dims()) tensor.add_shape(dim);
  }
  return indices;
}

SavedSlice ToSavedSlice(const Slice& slice) {
  SavedSlice saved;
  for (int64_t offset : slice.offset) saved.add_offset(offset);
  for (int64_t dim : slice.shape.dims()) saved.add_shape(dim);
  return saved;
}

}  // namespace

absl::StatusOr<Shard> WriteShard(FileSystem& files, absl::string_view directory, absl::string_view file_name,
                                 absl::Span<const HostSlice> slices) {
  ARMATURE_ASSIGN_OR_RETURN(const SlicesByName by_name, PrimarySlices(slices));
  Shard shard;
  ARMATURE_ASSIGN_OR_RETURN(const auto tensors, AddTensors(slices, shard));
  std::vector<SafetensorsDeclaration> declarations;
  for (const auto& slice : by_name)
    declarations.push_back({slice.first, slice.second->dtype, slice.second->slice.shape});
  ARMATURE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(std::move(declarations)));

  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file,
                            files.Create(absl::StrCat(directory, "/", file_name)));
  ARMATURE_RETURN_IF_ERROR(writer.WriteHeader(*file));
  for (const SafetensorsEntry& entry : writer.tensors()) {
    const HostSlice& slice = *by_name.at(entry.name);
    ARMATURE_RETURN_IF_ERROR(writer.Append(*file, slice.bytes));
    SavedSlice saved = ToSavedSlice(slice.slice);
    saved.set_offset_bytes(entry.offset_bytes);
    saved.set_crc32c(Crc32c(slice.bytes));
    *shard.mutable_tensors(tensors.at(slice.name))->add_slices() = std::move(saved);
  }
  ARMATURE_RETURN_IF_ERROR(writer.Finish());
  ARMATURE_RETURN_IF_ERROR(file->Sync());
  ARMATURE_RETURN_IF_ERROR(file->Close());

  shard.mutable_file()->set_name(std::string(file_name));
  shard.mutable_file()->set_size_bytes(writer.size_bytes());
  shard.mutable_file()->set_header_bytes(static_cast<int64_t>(writer.header().size()));
  shard.mutable_file()->set_header_crc32c(Crc32c(writer.header()));
  return shard;
}

absl::StatusOr<VerifiedShards> VerifiedShards::Open(FileSystem& files, absl::string_view directory,
                                                    const Manifest& manifest) {
  VerifiedShards shards;
  for (const ShardFile& file : manifest.files()) {
    absl::StatusOr<std::unique_ptr<MappedFile>> mapped = files.Map(absl::StrCat(directory, "/", file.name()));
    if (absl::IsNotFound(mapped.status()))
      return absl::DataLossError(absl::StrCat("file ", file.name(), " is missing"));
    if (!mapped.ok()) return mapped.status();
    const int64_t size_bytes = static_cast<int64_t>((*mapped)->bytes().size());
    if (size_bytes != file.size_bytes()) {
      return absl::DataLossError(absl::StrCat("file ", file.name(), " has ", size_bytes,
                                              " bytes and was written with ", file.size_bytes()));
    }
    shards.files_.push_back(*std::move(mapped));
  }
  ARMATURE_RETURN_IF_ERROR(shards.Verify(manifest));
  return shards;
}

absl::string_view VerifiedShards::BytesOf(const SavedTensor& tensor, const SavedSlice& slice) const {
  const absl::StatusOr<DType> dtype = ParseDType(tensor.dtype());
  const int64_t size_bytes = dtype.ok() ? SliceOf(slice).shape.num_elements() * SizeOf(*dtype) : 0;
  return files_[slice.file()]->bytes().substr(slice.offset_bytes(), size_bytes);
}

absl::Status VerifiedShards::Verify(const Manifest& manifest) const {
  for (int i = 0; i < manifest.files_size(); ++i) {
    const ShardFile& file = manifest.files(i);
    if (Crc32c(files_[i]->bytes().substr(0, file.header_bytes())) != file.header_crc32c()) {
      return absl::DataLossError(
          absl::StrCat("the header of file ", file.name(), " does not match its checksum"));
    }
  }
  for (const SavedTensor& tensor : manifest.tensors()) {
    for (const SavedSlice& slice : tensor.slices()) {
      if (Crc32c(BytesOf(tensor, slice)) != slice.crc32c()) {
        return absl::DataLossError(absl::StrCat("tensor ", tensor.name(), SliceOf(slice).ToString(),
                                                " in file ", manifest.files(slice.file()).name(),
                                                " does not match its checksum"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace armature
