// Checks of options, with one wording: "AdamW: beta1 is 1.5, but must be in [0, 1)". The private base of
// every Make….
#ifndef ARMATURE_OPTIM_OPTION_CHECKS_H_
#define ARMATURE_OPTIM_OPTION_CHECKS_H_

#include <cmath>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace armature {

inline absl::Status CheckOption(bool holds, absl::string_view name, double value, absl::string_view demand) {
  if (holds) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", but must be ", demand));
}

// A decay rate of a running mean, a momentum.
inline absl::Status CheckFraction(absl::string_view name, double value) {
  return CheckOption(value >= 0 && value < 1, name, value, "in [0, 1)");
}

inline absl::Status CheckNotNegative(absl::string_view name, double value) {
  return CheckOption(value >= 0 && std::isfinite(value), name, value, "finite and at least 0");
}

// As an f32, in which it is used: 1e-60 is not.
inline absl::Status CheckPositive(absl::string_view name, double value) {
  const float rounded = static_cast<float>(value);
  return CheckOption(rounded > 0 && std::isfinite(rounded), name, value, "finite and above 0 as an f32");
}

}  // namespace armature

#endif  // ARMATURE_OPTIM_OPTION_CHECKS_H_
