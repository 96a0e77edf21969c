#include "armature/data/batch.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {

int64_t Batch::num_samples() const {
  if (fields.empty() || fields[0].array.shape().rank() == 0) return 0;
  return fields[0].array.shape().dim(0);
}

const Array* Batch::Find(absl::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return &field.array;
  }
  return nullptr;
}

absl::Status Batch::Validate() const {
  if (fields.empty()) return absl::InvalidArgumentError("a batch without fields");
  if (first_sample < 0)
    return absl::InvalidArgumentError(absl::StrCat("first_sample ", first_sample, " is negative"));
  for (const Field& field : fields) {
    const Shape& shape = field.array.shape();
    if (field.name.empty()) return absl::InvalidArgumentError("a field of the batch has no name");
    if (Find(field.name) != &field.array) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", field.name, "\" is there twice"));
    }
    if (shape.rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("field \"", field.name, "\" is a scalar: it counts no samples"));
    }
    if (shape.dim(0) != num_samples()) {
      return absl::InvalidArgumentError(absl::StrCat("field \"", field.name, "\" of shape ", shape.ToString(),
                                                     " has not the ", num_samples(), " samples of \"",
                                                     fields[0].name, "\""));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Batch> Batch::Slice(int64_t begin, int64_t end) const {
  Batch slice;
  slice.first_sample = first_sample + begin;
  for (const Field& field : fields) {
    ARMATURE_ASSIGN_OR_RETURN(Array array, field.array.Slice(begin, end), "field \"", field.name, "\"");
    slice.fields.push_back({field.name, std::move(array)});
  }
  return slice;
}

}  // namespace armature
