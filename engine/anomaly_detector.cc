#include "armature/engine/anomaly_detector.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/tensor/ops/elementwise.h"

namespace armature {
namespace {

bool IsFinite(const Tensor& tensor) {
  if (!tensor.ok() || !IsFloat(tensor.dtype())) return true;
  std::vector<float> values(tensor.num_elements());
  if (!ops::Cast(tensor.Detach(), DType::kF32).ToHost(values.data()).ok()) return true;
  return std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
}

}  // namespace

void AnomalyDetector::Look(absl::string_view what, absl::string_view function,
                           absl::Span<GradientTarget* const> leaves, absl::Span<const Tensor> tensors) {
  std::string module;
  for (const GradientTarget* leaf : leaves) {
    const std::string name = name_of_(leaf);
    if (name.empty()) continue;
    module = name.substr(0, std::min(name.rfind('.'), name.size()));
    break;
  }
  if (!module.empty()) module_ = module;
  if (!found_.empty() || std::all_of(tensors.begin(), tensors.end(), IsFinite)) return;
  found_ = absl::StrCat(what, " ", function);
  if (!module.empty()) {
    absl::StrAppend(&found_, " in ", module);
  } else if (!module_.empty()) {
    absl::StrAppend(&found_, " next to ", module_);
  }
}

void AnomalyDetector::OnOutputs(absl::string_view function, absl::Span<GradientTarget* const> leaves,
                                absl::Span<const Tensor> outputs) {
  Look("the output of", function, leaves, outputs);
}

void AnomalyDetector::OnGradients(absl::string_view function, absl::Span<GradientTarget* const> leaves,
                                  absl::Span<const Tensor> gradients) {
  Look("the gradient from", function, leaves, gradients);
}

}  // namespace armature
