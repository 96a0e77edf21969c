// From the configuration's messages to update rules and schedules.
#ifndef ARMATURE_ENGINE_OPTIMIZER_CONFIG_H_
#define ARMATURE_ENGINE_OPTIMIZER_CONFIG_H_

#include <memory>

#include "absl/status/statusor.h"
#include "armature/engine/config.pb.h"
#include "armature/optim/loss_scale.h"
#include "armature/optim/schedule.h"
#include "armature/optim/update_rule.h"

namespace armature {

// Errors: InvalidArgument naming the field, as "optimizer.adamw: beta1 is ...".
absl::StatusOr<std::unique_ptr<UpdateRule>> MakeUpdateRule(const OptimizerConfig& config);

// Errors: InvalidArgument naming the field, as "learning_rate: ...".
absl::StatusOr<Schedule> MakeSchedule(const LearningRateConfig& config);

// Fields that are left out have the defaults of LossScalerOptions.
LossScalerOptions LossScalerOptionsOf(const LossScaleConfig& config);

}  // namespace armature

#endif  // ARMATURE_ENGINE_OPTIMIZER_CONFIG_H_
