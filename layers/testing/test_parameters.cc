#include "armature/layers/testing/test_parameters.h"

#include "armature/base/status_matchers.h"
#include "armature/tensor/tape.h"

namespace armature {

TestParameters::TestParameters(Backend& backend, const ParameterRegistry& registry, DType dtype)
    : backend_(backend), registry_(registry), dtype_(dtype) {
  for (const ParameterSpec& spec : registry.specs()) {
    weights_.push_back(Tensor::Empty(backend, spec.LocalShape(), dtype, MemoryCategory::kParameters));
    EXPECT_THAT(Initialize(backend, spec, /*seed=*/1, /*offset=*/0, weights_.back().view()), IsOk());
    places_.push_back(std::make_unique<GradientPlace>(backend, spec.LocalShape(), dtype));
  }
}

Tensor TestParameters::Borrow(ParameterId id, Tape* tape) {
  const Tensor& weight = weights_[id.index];
  return tape == nullptr ? weight : tape->Watch(weight, places_[id.index].get());
}

int TestParameters::IndexOf(absl::string_view name) const {
  const absl::StatusOr<ParameterId> id = registry_.Find(name);
  EXPECT_THAT(id, IsOk());
  return id.ok() ? id->index : 0;
}

std::vector<double> TestParameters::Values(absl::string_view name) const {
  return ToDoubles(weights_[IndexOf(name)]);
}

void TestParameters::Set(absl::string_view name, const std::vector<double>& values) {
  Tensor& weight = weights_[IndexOf(name)];
  weight = FromDoubles(backend_, weight.shape(), values, dtype_);
}

std::vector<double> TestParameters::Gradient(absl::string_view name) const {
  const GradientPlace& place = *places_[IndexOf(name)];
  return place.contributions() > 0 ? place.Values() : std::vector<double>();
}

std::vector<std::vector<double>> TestParameters::Gradients() const {
  std::vector<std::vector<double>> gradients;
  for (const ParameterSpec& spec : registry_.specs()) gradients.push_back(Gradient(spec.name));
  return gradients;
}

int TestParameters::Contributions(absl::string_view name) const {
  return places_[IndexOf(name)]->contributions();
}

}  // namespace armature
