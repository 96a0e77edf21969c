#include "armature/layers/context.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace armature {

Context Context::WithTape(Tape* tape) const {
  Context copy = *this;
  copy.options_.tape = tape;
  return copy;
}

bool Context::Recomputes(absl::string_view part) const {
  return std::find(options_.recomputed_parts.begin(), options_.recomputed_parts.end(), part) !=
         options_.recomputed_parts.end();
}

Tensor Context::Use(ParameterId id) { return options_.parameters->Borrow(id, options_.tape); }

const Tensor* Context::Find(absl::string_view name) const {
  for (const auto& [field, tensor] : batch().fields) {
    if (field == name) return &tensor;
  }
  return nullptr;
}

Tensor Context::Input(absl::string_view name) const {
  const Tensor* tensor = Find(name);
  if (tensor != nullptr) return *tensor;
  return Tensor::Failed(absl::NotFoundError(absl::StrCat("the batch has no field \"", name, "\"")));
}

bool Context::HasInput(absl::string_view name) const { return Find(name) != nullptr; }

RandomRegion Context::Dropout(int64_t layer, int64_t rows, int64_t cols, int64_t row_offset) const {
  RandomRegion region;
  region.key = MakeRandomKey(options_.seed, RandomPurpose::kDropout, options_.step, layer);
  region.first_sample = batch().first_sample;
  region.rows = rows;
  region.cols = cols;
  region.row_offset = row_offset;
  region.global_cols = cols;
  return region;
}

}  // namespace armature
