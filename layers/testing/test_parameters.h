// TestParameters: the weights of a test's layers, in any float dtype, and a place for the gradient of each.
//
//   TestParameters parameters(*backend, registry, DType::kF64);
//   options.parameters = &parameters;
//   ...                                                    // forward, backward
//   parameters.Gradient("h.0.ln_1.weight");
#ifndef ARMATURE_LAYERS_TESTING_TEST_PARAMETERS_H_
#define ARMATURE_LAYERS_TESTING_TEST_PARAMETERS_H_

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "armature/tensor/parameter.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {

class TestParameters : public ParameterSource {
 public:
  // Initial values as the specs say, for seed 1. `registry` must outlive this.
  TestParameters(Backend& backend, const ParameterRegistry& registry, DType dtype = DType::kF32);

  Tensor Borrow(ParameterId id, Tape* tape) override;

  std::vector<double> Values(absl::string_view name) const;
  void Set(absl::string_view name, const std::vector<double>& values);
  // Empty if nothing has flowed into it.
  std::vector<double> Gradient(absl::string_view name) const;
  // All of them, in the order of declaration.
  std::vector<std::vector<double>> Gradients() const;
  int Contributions(absl::string_view name) const;

 private:
  int IndexOf(absl::string_view name) const;

  Backend& backend_;
  const ParameterRegistry& registry_;
  const DType dtype_;
  std::vector<Tensor> weights_;
  std::vector<std::unique_ptr<GradientPlace>> places_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_TESTING_TEST_PARAMETERS_H_
