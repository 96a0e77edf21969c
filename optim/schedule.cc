#include "armature/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"

namespace armature {
namespace {

using Decay = ScheduleOptions::Decay;

constexpr double kPi = 3.14159265358979323846;

// How far update k is from `begin` to `end`, in [0, 1].
double Progress(int64_t k, int64_t begin, int64_t end) {
  if (k >= end) return 1;
  if (k <= begin) return 0;
  return static_cast<double>(k - begin) / static_cast<double>(end - begin);
}

bool HasEnd(Decay decay) {
  return decay == Decay::kLinear || decay == Decay::kCosine || decay == Decay::kWarmupStableDecay;
}

}  // namespace

absl::StatusOr<Schedule> Schedule::Create(const ScheduleOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckPositive("peak", options.peak), "schedule");
  ARMATURE_RETURN_IF_ERROR(CheckOption(options.min >= 0 && options.min <= options.peak, "min", options.min,
                                       absl::StrCat("in [0, peak], which is [0, ", options.peak, "]")),
                           "schedule");
  const auto check_count = [](absl::string_view name, int64_t count, int64_t low, int64_t high,
                              absl::string_view demand) {
    if (count >= low && count <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("schedule: ", name, " is ", count, ", but must be ", demand));
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  ARMATURE_RETURN_IF_ERROR(check_count("warmup_updates", options.warmup_updates, 0, kMax, "at least 0"));
  if (HasEnd(options.decay)) {
    ARMATURE_RETURN_IF_ERROR(check_count("total_updates", options.total_updates, options.warmup_updates, kMax,
                                         absl::StrCat("at least warmup_updates, ", options.warmup_updates)));
  }
  if (options.decay == Decay::kWarmupStableDecay) {
    const int64_t room = options.total_updates - options.warmup_updates;
    ARMATURE_RETURN_IF_ERROR(
        check_count("decay_updates", options.decay_updates, 0, room,
                    absl::StrCat("between 0 and total_updates - warmup_updates, ", room)));
  }
  return Schedule(options);
}

double Schedule::LearningRate(int64_t k) const {
  k = std::max<int64_t>(k, 1);
  const int64_t top = std::max<int64_t>(options_.warmup_updates, 1);
  const double peak = options_.peak, min = options_.min;
  if (k <= top) return peak * static_cast<double>(k) / static_cast<double>(top);
  switch (options_.decay) {
    case Decay::kConstant:
      return peak;
    case Decay::kLinear:
      return peak + (min - peak) * Progress(k, top, options_.total_updates);
    case Decay::kCosine:
      return min + (peak - min) * (0.5 + 0.5 * std::cos(kPi * Progress(k, top, options_.total_updates)));
    case Decay::kInverseSquareRoot:
      return std::max(min, peak * std::sqrt(static_cast<double>(top) / static_cast<double>(k)));
    case Decay::kWarmupStableDecay: {
      const int64_t total = options_.total_updates;
      return peak + (min - peak) * Progress(k, std::max(top, total - options_.decay_updates), total);
    }
  }
  return peak;
}

}  // namespace armature
