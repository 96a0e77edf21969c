#include "armature/layers/module_builder.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace armature {

ModuleBuilder ModuleBuilder::Scope(absl::string_view name) const {
  ModuleBuilder child = *this;
  child.prefix_ = absl::StrCat(prefix_, name, ".");
  return child;
}

ParameterId ModuleBuilder::Parameter(absl::string_view name, const Shape& global_shape,
                                     const Initializer& init, const Sharding& sharding) {
  absl::StatusOr<ParameterId> id =
      shared_->registry->Add({absl::StrCat(prefix_, name), global_shape, init, sharding});
  if (id.ok()) return *id;
  Fail(id.status());
  return ParameterId{};
}

ParameterId ModuleBuilder::Tied(absl::string_view full_name, const Shape& global_shape,
                                const Initializer& init, const Sharding& sharding) {
  absl::StatusOr<ParameterId> id = shared_->registry->Find(full_name);
  if (!id.ok()) id = shared_->registry->Add({std::string(full_name), global_shape, init, sharding});
  if (!id.ok()) {
    Fail(id.status());
    return ParameterId{};
  }
  const ParameterSpec& spec = shared_->registry->specs()[id->index];
  if (spec.global_shape == global_shape && spec.sharding == sharding) return *id;
  Fail(absl::InvalidArgumentError(
      spec.global_shape == global_shape
          ? absl::StrCat("tied parameter ", full_name, " is split in two ways over the tensor axis")
          : absl::StrCat("tied parameter ", full_name, " has shape ", spec.global_shape.ToString(),
                         ", wanted is ", global_shape.ToString())));
  return ParameterId{};
}

Sharding ModuleBuilder::Split(int dim, std::vector<int64_t> sections) const {
  Sharding sharding;
  sharding.dim = dim;
  sharding.sections = std::move(sections);
  sharding.parts = shared_->tensor_size;
  sharding.part = shared_->tensor_rank;
  return sharding;
}

Sharding ModuleBuilder::SplitPadded(int dim) const {
  Sharding sharding = Split(dim);
  sharding.padded = true;
  return sharding;
}

Sharding ModuleBuilder::WholeOnSlices() const {
  Sharding sharding;
  sharding.partial_gradient = shared_->sequence_parallel && shared_->tensor_size > 1;
  return sharding;
}

int64_t ModuleBuilder::NextLayer() {
  return (static_cast<int64_t>(shared_->block) << 16) + shared_->num_layers++;
}

void ModuleBuilder::Fail(const absl::Status& why) {
  if (shared_->status.ok()) shared_->status = why;
}

}  // namespace armature
