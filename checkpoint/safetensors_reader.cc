#include "armature/checkpoint/safetensors_reader.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/safetensors_header.h"

namespace armature {
namespace {

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

std::string Quote(absl::string_view name) {
  return absl::StrCat("tensor \"", absl::Utf8SafeCEscape(name.substr(0, 200)), "\"");
}

uint64_t ReadLittleEndian64(absl::string_view bytes) {
  uint64_t value = 0;
  for (int i = 7; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

absl::StatusOr<absl::string_view> FindHeader(absl::string_view file) {
  if (file.empty()) return Invalid("the file is empty");
  if (file.size() < kSafetensorsLengthBytes) {
    return Invalid("the file ends in its header length: it has ", file.size(), " bytes");
  }
  const uint64_t length = ReadLittleEndian64(file);
  const absl::string_view rest = file.substr(kSafetensorsLengthBytes);
  if (length > static_cast<uint64_t>(kMaxSafetensorsHeaderBytes)) {
    return Invalid("a header of ", length, " bytes is over the limit of ", kMaxSafetensorsHeaderBytes);
  }
  if (length > rest.size()) {
    return Invalid("a header of ", length, " bytes runs past the end of the file, which has ", rest.size(),
                   " more");
  }
  if (length == 0) return Invalid("the header is empty");
  return rest.substr(0, length);
}

// Checks everything about a tensor that does not depend on the others. Its offset counts from the data's
// start.
absl::StatusOr<SafetensorsEntry> ToEntry(SafetensorsHeader::Tensor tensor) {
  SafetensorsEntry entry;
  ARMATURE_ASSIGN_OR_RETURN(entry.dtype, ParseSafetensorsDType(tensor.dtype));
  ARMATURE_ASSIGN_OR_RETURN(entry.shape, Shape::Create(tensor.shape));
  ARMATURE_ASSIGN_OR_RETURN(entry.size_bytes, SizeBytes(entry.shape, entry.dtype));
  const int64_t begin = tensor.data_offsets[0], end = tensor.data_offsets[1];
  if (begin > end) return Invalid("data_offsets [", begin, ", ", end, "] run backwards");
  if (end - begin != entry.size_bytes) {
    return Invalid("data_offsets [", begin, ", ", end, "] hold ", end - begin, " bytes, but shape ",
                   entry.shape.ToString(), " of ", Name(entry.dtype), " needs ", entry.size_bytes);
  }
  entry.offset_bytes = begin;
  entry.name = std::move(tensor.name);
  return entry;
}

// `tensors`, sorted, must tile [0, size_bytes).
absl::Status CheckTiling(const std::vector<SafetensorsEntry>& tensors, int64_t size_bytes) {
  int64_t end = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.offset_bytes < end) {
      return Invalid(Quote(tensor.name), " begins at ", tensor.offset_bytes,
                     " and overlaps the one before, which ends at ", end);
    }
    if (tensor.offset_bytes > end) {
      return Invalid("a hole of ", tensor.offset_bytes - end, " bytes lies before ", Quote(tensor.name));
    }
    end += tensor.size_bytes;
    if (end > size_bytes) {
      return Invalid("the data is cut short: ", Quote(tensor.name), " ends at ", end, ", the file has ",
                     size_bytes, " bytes of data");
    }
  }
  if (end < size_bytes) return Invalid(size_bytes - end, " bytes follow the last tensor");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SafetensorsIndex> ReadSafetensorsIndex(absl::string_view file) {
  ARMATURE_ASSIGN_OR_RETURN(const absl::string_view json, FindHeader(file));
  ARMATURE_ASSIGN_OR_RETURN(SafetensorsHeader header, ParseSafetensorsHeader(json));
  SafetensorsIndex index;
  index.metadata = std::move(header.metadata);
  index.tensors.reserve(header.tensors.size());
  for (SafetensorsHeader::Tensor& tensor : header.tensors) {
    const std::string name = Quote(tensor.name);
    ARMATURE_ASSIGN_OR_RETURN(SafetensorsEntry entry, ToEntry(std::move(tensor)), name);
    index.tensors.push_back(std::move(entry));
  }
  // Tensors without data sort before the one that begins where they stand.
  std::sort(index.tensors.begin(), index.tensors.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
              return std::tie(a.offset_bytes, a.size_bytes, a.name) <
                     std::tie(b.offset_bytes, b.size_bytes, b.name);
            });
  const int64_t data_begin = kSafetensorsLengthBytes + static_cast<int64_t>(json.size());
  ARMATURE_RETURN_IF_ERROR(CheckTiling(index.tensors, static_cast<int64_t>(file.size()) - data_begin));
  for (SafetensorsEntry& tensor : index.tensors) tensor.offset_bytes += data_begin;
  return index;
}

}  // namespace armature
