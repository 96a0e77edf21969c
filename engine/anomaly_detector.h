// AnomalyDetector: finds the first operation of a step whose output, or whose gradient, is not finite.
#ifndef ARMATURE_ENGINE_ANOMALY_DETECTOR_H_
#define ARMATURE_ENGINE_ANOMALY_DETECTOR_H_

#include <functional>
#include <string>
#include <utility>

#include "armature/tensor/tape.h"

namespace armature {

// Thread-compatible.
class AnomalyDetector : public TapeObserver {
 public:
  // `name_of` gives the name of a leaf: a parameter's, or "" if it is none.
  explicit AnomalyDetector(std::function<std::string(const GradientTarget*)> name_of)
      : name_of_(std::move(name_of)) {}

  void BeginStep() { found_.clear(); }
  // "the output of Linear in h.3.mlp.c_fc", or empty. An operation without parameters is named with the
  // module that was last seen before it: "the gradient from Attention next to h.3.attn.c_proj".
  const std::string& found() const { return found_; }

  void OnOutputs(absl::string_view function, absl::Span<GradientTarget* const> leaves,
                 absl::Span<const Tensor> outputs) override;
  void OnGradients(absl::string_view function, absl::Span<GradientTarget* const> leaves,
                   absl::Span<const Tensor> gradients) override;

 private:
  void Look(absl::string_view what, absl::string_view function, absl::Span<GradientTarget* const> leaves,
            absl::Span<const Tensor> tensors);

  const std::function<std::string(const GradientTarget*)> name_of_;
  std::string module_;  // last seen
  std::string found_;
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_ANOMALY_DETECTOR_H_
