#include "armature/layers/module_builder.h"

#include "absl/strings/str_cat.h"

namespace armature {

ModuleBuilder ModuleBuilder::Scope(absl::string_view name) const {
  ModuleBuilder child = *this;
  child.prefix_ = absl::StrCat(prefix_, name, ".");
  return child;
}

ParameterId ModuleBuilder::Parameter(absl::string_view name, const Shape& shape, const Initializer& init) {
  absl::StatusOr<ParameterId> id = shared_->registry->Add({absl::StrCat(prefix_, name), shape, init});
  if (id.ok()) return *id;
  Fail(id.status());
  return ParameterId{};
}

ParameterId ModuleBuilder::Tied(absl::string_view full_name, const Shape& shape, const Initializer& init) {
  absl::StatusOr<ParameterId> id = shared_->registry->Find(full_name);
  if (!id.ok()) id = shared_->registry->Add({std::string(full_name), shape, init});
  if (id.ok() && shared_->registry->specs()[id->index].shape == shape) return *id;
  Fail(!id.ok()
           ? id.status()
           : absl::InvalidArgumentError(absl::StrCat("tied parameter ", full_name, " has shape ",
                                                     shared_->registry->specs()[id->index].shape.ToString(),
                                                     ", wanted is ", shape.ToString())));
  return ParameterId{};
}

int64_t ModuleBuilder::NextLayer() {
  return (static_cast<int64_t>(shared_->block) << 16) + shared_->num_layers++;
}

void ModuleBuilder::Fail(const absl::Status& why) {
  if (shared_->status.ok()) shared_->status = why;
}

}  // namespace armature
