#include "armature/checkpoint/weights_file.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/durable_files.h"
#include "armature/checkpoint/safetensors_reader.h"
#include "armature/checkpoint/safetensors_writer.h"

namespace armature {
namespace {

absl::StatusOr<SafetensorsWriter> MakeWriter(absl::Span<const NamedArray> arrays,
                                             const SafetensorsMetadata& metadata) {
  std::vector<SafetensorsDeclaration> declarations;
  for (const NamedArray& array : arrays) declarations.push_back({array.name, array.dtype, array.shape});
  return SafetensorsWriter::Create(std::move(declarations), metadata);
}

absl::Status WriteTo(WritableFile& file, SafetensorsWriter& writer, absl::Span<const NamedArray> arrays) {
  std::map<absl::string_view, const NamedArray*> by_name;
  for (const NamedArray& array : arrays) by_name[array.name] = &array;
  ARMATURE_RETURN_IF_ERROR(writer.WriteHeader(file));
  for (const SafetensorsEntry& entry : writer.tensors()) {
    const absl::string_view bytes = by_name.at(entry.name)->bytes;
    ARMATURE_RETURN_IF_ERROR(writer.Append(file, bytes));
  }
  ARMATURE_RETURN_IF_ERROR(writer.Finish());
  ARMATURE_RETURN_IF_ERROR(file.Sync());
  return file.Close();
}

absl::Status CheckSizes(absl::Span<const NamedArray> arrays) {
  for (const NamedArray& array : arrays) {
    ARMATURE_ASSIGN_OR_RETURN(const int64_t size_bytes, SizeBytes(array.shape, array.dtype), "array ",
                              array.name);
    if (size_bytes == static_cast<int64_t>(array.bytes.size())) continue;
    return absl::InvalidArgumentError(absl::StrCat("array ", array.name, ": ", array.bytes.size(),
                                                   " bytes for shape ", array.shape.ToString(), " of ",
                                                   Name(array.dtype)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NamedArray> NamedArrays::Find(absl::string_view name) const {
  const auto found =
      std::lower_bound(arrays_.begin(), arrays_.end(), name,
                       [](const NamedArray& array, absl::string_view n) { return array.name < n; });
  if (found == arrays_.end() || found->name != name)
    return absl::NotFoundError(absl::StrCat("no array is called ", name));
  return *found;
}

absl::StatusOr<NamedArrays> ReadSafetensors(FileSystem& files, absl::string_view path) {
  NamedArrays result;
  ARMATURE_ASSIGN_OR_RETURN(result.file_, files.Map(path));
  const absl::string_view bytes = result.file_->bytes();
  ARMATURE_ASSIGN_OR_RETURN(SafetensorsIndex index, ReadSafetensorsIndex(bytes), path);
  for (SafetensorsEntry& entry : index.tensors) {
    result.arrays_.push_back({std::move(entry.name), entry.dtype, entry.shape, BytesOf(entry, bytes)});
  }
  std::sort(result.arrays_.begin(), result.arrays_.end(),
            [](const NamedArray& a, const NamedArray& b) { return a.name < b.name; });
  result.metadata_ = std::move(index.metadata);
  return result;
}

absl::Status WriteSafetensors(FileSystem& files, absl::string_view path, absl::Span<const NamedArray> arrays,
                              const SafetensorsMetadata& metadata) {
  ARMATURE_RETURN_IF_ERROR(CheckSizes(arrays), path);
  ARMATURE_ASSIGN_OR_RETURN(SafetensorsWriter writer, MakeWriter(arrays, metadata), path);
  const std::string partial = absl::StrCat(path, ".partial");
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files.Create(partial));
  absl::Status status = WriteTo(*file, writer, arrays);
  if (status.ok()) status = files.Rename(partial, path);
  if (!status.ok()) {
    files.Remove(partial).IgnoreError();
    return status;
  }
  return files.SyncDirectory(ParentDirectory(path));
}

}  // namespace armature
