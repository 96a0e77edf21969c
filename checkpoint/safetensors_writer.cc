#include "armature/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/utf8.h"
#include "nlohmann/json.hpp"

namespace armature {
namespace {

constexpr size_t kAlignment = 8;

absl::StatusOr<std::string> ToJsonString(absl::string_view text) {
  if (FindInvalidUtf8(text) >= 0) {
    return absl::InvalidArgumentError(absl::StrCat("\"", absl::CEscape(text), "\" is not UTF-8"));
  }
  return nlohmann::json(std::string(text)).dump();
}

bool ComesBefore(const SafetensorsDeclaration& a, const SafetensorsDeclaration& b) {
  const int64_t a_size = SizeOf(a.dtype), b_size = SizeOf(b.dtype);
  return std::tie(b_size, a.name) < std::tie(a_size, b.name);
}

absl::Status CheckNames(const std::vector<SafetensorsDeclaration>& tensors) {
  std::vector<absl::string_view> names;
  for (const SafetensorsDeclaration& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    return absl::InvalidArgumentError(absl::StrCat("tensor \"", *twice, "\" is declared twice"));
  if (std::binary_search(names.begin(), names.end(), kSafetensorsMetadataKey)) {
    return absl::InvalidArgumentError(
        absl::StrCat("no tensor can be called \"", kSafetensorsMetadataKey, "\""));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MetadataField(const SafetensorsMetadata& metadata) {
  std::vector<std::string> fields;
  for (const auto& field : metadata) {
    ARMATURE_ASSIGN_OR_RETURN(const std::string key, ToJsonString(field.first), "metadata");
    ARMATURE_ASSIGN_OR_RETURN(const std::string value, ToJsonString(field.second), "metadata ", field.first);
    fields.push_back(absl::StrCat(key, ":", value));
  }
  return absl::StrCat("\"", kSafetensorsMetadataKey, "\":{", absl::StrJoin(fields, ","), "}");
}

std::string LittleEndian64(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
  return bytes;
}

}  // namespace

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(std::vector<SafetensorsDeclaration> tensors,
                                                            const SafetensorsMetadata& metadata) {
  ARMATURE_RETURN_IF_ERROR(CheckNames(tensors));
  std::sort(tensors.begin(), tensors.end(), ComesBefore);
  std::vector<std::string> fields;
  if (!metadata.empty()) {
    ARMATURE_ASSIGN_OR_RETURN(std::string field, MetadataField(metadata));
    fields.push_back(std::move(field));
  }
  SafetensorsWriter writer;
  int64_t end = 0;  // of the data so far
  for (SafetensorsDeclaration& tensor : tensors) {
    ARMATURE_ASSIGN_OR_RETURN(const std::string name, ToJsonString(tensor.name), "name of a tensor");
    ARMATURE_ASSIGN_OR_RETURN(const int64_t size, SizeBytes(tensor.shape, tensor.dtype), "tensor ",
                              tensor.name);
    const int64_t begin = end;
    if (__builtin_add_overflow(end, size, &end) || end > INT64_MAX - 2 * kMaxSafetensorsHeaderBytes) {
      return absl::InvalidArgumentError("the tensors together have more than 2^63-1 bytes");
    }
    fields.push_back(absl::StrCat(name, ":{\"dtype\":\"", SafetensorsName(tensor.dtype), "\",\"shape\":[",
                                  absl::StrJoin(tensor.shape.dims(), ","), "],\"data_offsets\":[", begin, ",",
                                  end, "]}"));
    writer.tensors_.push_back({std::move(tensor.name), tensor.dtype, tensor.shape, begin, size});
  }
  std::string json = absl::StrCat("{", absl::StrJoin(fields, ","), "}");
  json.resize((json.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  if (static_cast<int64_t>(json.size()) > kMaxSafetensorsHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a header of ", json.size(), " bytes is over the limit of ", kMaxSafetensorsHeaderBytes));
  }
  writer.header_ = LittleEndian64(json.size()) + json;
  for (SafetensorsEntry& tensor : writer.tensors_)
    tensor.offset_bytes += static_cast<int64_t>(writer.header_.size());
  writer.size_bytes_ = static_cast<int64_t>(writer.header_.size()) + end;
  return writer;
}

absl::Status SafetensorsWriter::WriteHeader(WritableFile& file) {
  written_bytes_ = static_cast<int64_t>(header_.size());
  return file.Append(header_);
}

absl::Status SafetensorsWriter::Append(WritableFile& file, absl::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > size_bytes_ - written_bytes_) {
    return absl::OutOfRangeError(absl::StrCat(bytes.size(), " bytes where ", size_bytes_ - written_bytes_,
                                              " of the declared ", size_bytes_, " are left"));
  }
  written_bytes_ += static_cast<int64_t>(bytes.size());
  return file.Append(bytes);
}

absl::Status SafetensorsWriter::Finish() const {
  if (written_bytes_ == size_bytes_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(written_bytes_, " of the declared ", size_bytes_, " bytes were written"));
}

}  // namespace armature
