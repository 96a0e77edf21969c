#include "armature/engine/optimizer_config.h"

#include "armature/base/status_macros.h"
#include "armature/optim/adagrad.h"
#include "armature/optim/adam.h"
#include "armature/optim/lamb.h"
#include "armature/optim/lion.h"
#include "armature/optim/rmsprop.h"
#include "armature/optim/sgd.h"

namespace armature {
namespace {

using Rule = absl::StatusOr<std::unique_ptr<UpdateRule>>;

Rule Make(const OptimizerConfig::Sgd& config) {
  SgdOptions options;
  options.momentum = config.momentum();
  options.dampening = config.dampening();
  options.weight_decay = config.weight_decay();
  options.nesterov = config.nesterov();
  return AddContext(MakeSgd(options), "optimizer.sgd");
}

Rule Make(const OptimizerConfig::Adam& config) {
  AdamOptions options;
  if (config.has_beta1()) options.beta1 = config.beta1();
  if (config.has_beta2()) options.beta2 = config.beta2();
  if (config.has_eps()) options.eps = config.eps();
  options.weight_decay = config.weight_decay();
  options.amsgrad = config.amsgrad();
  return AddContext(MakeAdam(options), "optimizer.adam");
}

Rule Make(const OptimizerConfig::AdamW& config) {
  AdamWOptions options;
  if (config.has_beta1()) options.beta1 = config.beta1();
  if (config.has_beta2()) options.beta2 = config.beta2();
  if (config.has_eps()) options.eps = config.eps();
  if (config.has_weight_decay()) options.weight_decay = config.weight_decay();
  options.amsgrad = config.amsgrad();
  return AddContext(MakeAdamW(options), "optimizer.adamw");
}

Rule Make(const OptimizerConfig::Adagrad& config) {
  AdagradOptions options;
  if (config.has_eps()) options.eps = config.eps();
  options.weight_decay = config.weight_decay();
  return AddContext(MakeAdagrad(options), "optimizer.adagrad");
}

Rule Make(const OptimizerConfig::RmsProp& config) {
  RmsPropOptions options;
  if (config.has_alpha()) options.alpha = config.alpha();
  if (config.has_eps()) options.eps = config.eps();
  options.momentum = config.momentum();
  options.weight_decay = config.weight_decay();
  options.centred = config.centered();
  return AddContext(MakeRmsProp(options), "optimizer.rmsprop");
}

Rule Make(const OptimizerConfig::Lamb& config) {
  LambOptions options;
  if (config.has_beta1()) options.beta1 = config.beta1();
  if (config.has_beta2()) options.beta2 = config.beta2();
  if (config.has_eps()) options.eps = config.eps();
  if (config.has_weight_decay()) options.weight_decay = config.weight_decay();
  return AddContext(MakeLamb(options), "optimizer.lamb");
}

Rule Make(const OptimizerConfig::Lion& config) {
  LionOptions options;
  if (config.has_beta1()) options.beta1 = config.beta1();
  if (config.has_beta2()) options.beta2 = config.beta2();
  options.weight_decay = config.has_weight_decay() ? config.weight_decay() : 0.01;
  return AddContext(MakeLion(options), "optimizer.lion");
}

}  // namespace

Rule MakeUpdateRule(const OptimizerConfig& config) {
  switch (config.rule_case()) {
    case OptimizerConfig::kSgd:
      return Make(config.sgd());
    case OptimizerConfig::kAdam:
      return Make(config.adam());
    case OptimizerConfig::kAdagrad:
      return Make(config.adagrad());
    case OptimizerConfig::kRmsprop:
      return Make(config.rmsprop());
    case OptimizerConfig::kLamb:
      return Make(config.lamb());
    case OptimizerConfig::kLion:
      return Make(config.lion());
    case OptimizerConfig::kAdamw:
    case OptimizerConfig::RULE_NOT_SET:
      return Make(config.adamw());
  }
  return absl::InvalidArgumentError("optimizer: unknown rule");
}

absl::StatusOr<Schedule> MakeSchedule(const LearningRateConfig& config) {
  ScheduleOptions options;
  options.peak = config.peak();
  options.min = config.min();
  options.warmup_updates = config.warmup_steps();
  options.total_updates = config.total_steps();
  switch (config.decay_case()) {
    case LearningRateConfig::kConstant:
    case LearningRateConfig::DECAY_NOT_SET:
      options.decay = ScheduleOptions::Decay::kConstant;
      break;
    case LearningRateConfig::kLinear:
      options.decay = ScheduleOptions::Decay::kLinear;
      break;
    case LearningRateConfig::kCosine:
      options.decay = ScheduleOptions::Decay::kCosine;
      break;
    case LearningRateConfig::kInverseSquareRoot:
      options.decay = ScheduleOptions::Decay::kInverseSquareRoot;
      break;
    case LearningRateConfig::kWarmupStableDecay:
      options.decay = ScheduleOptions::Decay::kWarmupStableDecay;
      options.decay_updates = config.warmup_stable_decay().decay_steps();
      break;
  }
  return AddContext(Schedule::Create(options), "learning_rate");
}

LossScalerOptions LossScalerOptionsOf(const LossScaleConfig& config) {
  LossScalerOptions options;
  if (config.has_initial()) options.initial_scale = config.initial();
  if (config.has_growth()) options.growth = config.growth();
  if (config.has_backoff()) options.backoff = config.backoff();
  if (config.has_growth_interval()) options.growth_interval = config.growth_interval();
  if (config.has_min()) options.min_scale = config.min();
  return options;
}

}  // namespace armature
