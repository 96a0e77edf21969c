#include "armature/engine/validate.h"

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "armature/base/status_macros.h"
#include "armature/engine/optimizer_config.h"

namespace armature {
namespace {

absl::Status NotNegative(absl::string_view field, double value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, ", must not be negative"));
}

// A feature of a later version: every value but the one that works is refused by name.
absl::Status NotBuilt(absl::string_view field, absl::string_view value, absl::string_view instead) {
  return absl::UnimplementedError(absl::StrCat(
      field, " = ", value, " is not built in this version; set it to ", instead, " or leave it out"));
}

absl::Status ValidateCheckpoint(const CheckpointConfig& checkpoint) {
  ARMATURE_RETURN_IF_ERROR(NotNegative("checkpoint.every_steps", checkpoint.every_steps()));
  ARMATURE_RETURN_IF_ERROR(NotNegative("checkpoint.keep_last", checkpoint.keep_last()));
  if (checkpoint.directory().empty() && (checkpoint.every_steps() > 0 || checkpoint.read_only())) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint.",
                                                   checkpoint.read_only() ? "read_only" : "every_steps",
                                                   " is set but checkpoint.directory is not"));
  }
  if (checkpoint.read_only() && checkpoint.every_steps() > 0) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint.every_steps is ", checkpoint.every_steps(),
                                                   ", but checkpoint.read_only lets nothing be saved"));
  }
  return absl::OkStatus();
}

absl::Status ValidateParallel(const ParallelConfig& parallel) {
  const struct {
    absl::string_view field;
    int32_t size;
  } axes[] = {{"parallel.data", parallel.data()},
              {"parallel.tensor", parallel.tensor()},
              {"parallel.pipeline", parallel.pipeline()},
              {"parallel.context", parallel.context()}};
  for (const auto& axis : axes) {
    ARMATURE_RETURN_IF_ERROR(NotNegative(axis.field, axis.size));
  }
  for (const auto& axis : {axes[2], axes[3]}) {
    if (axis.size > 1) return NotBuilt(axis.field, absl::StrCat(axis.size), "1");
  }
  ARMATURE_RETURN_IF_ERROR(NotNegative("parallel.bucket_bytes", parallel.bucket_bytes()));
  ARMATURE_RETURN_IF_ERROR(NotNegative("parallel.timeout_seconds", parallel.timeout_seconds()));
  if (parallel.sharding() < 0 || parallel.sharding() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("parallel.sharding is ", parallel.sharding(), ", must be 0, 1, 2 or 3"));
  }
  ARMATURE_RETURN_IF_ERROR(NotNegative("parallel.sharding_ranks", parallel.sharding_ranks()));
  if (parallel.sharding_ranks() > 0) {
    const int64_t replicas = int64_t{std::max(parallel.data(), 1)} * std::max(parallel.context(), 1);
    if (replicas % parallel.sharding_ranks() != 0) {
      return absl::InvalidArgumentError(absl::StrCat("parallel.sharding_ranks is ", parallel.sharding_ranks(),
                                                     ", must divide data * context, which is ", replicas));
    }
  }
  if (parallel.schedule() != ParallelConfig::ONE_F_ONE_B) {
    return NotBuilt("parallel.schedule", ParallelConfig::Schedule_Name(parallel.schedule()), "ONE_F_ONE_B");
  }
  return absl::OkStatus();
}

absl::Status ValidatePrecision(const EngineConfig& config) {
  if (!EngineConfig::Precision_IsValid(config.precision())) {
    return absl::InvalidArgumentError(
        absl::StrCat("precision is ", config.precision(), ", must be F32, BF16 or F16"));
  }
  if (config.gradient_precision() != EngineConfig::F32 && config.gradient_precision() != EngineConfig::BF16) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient_precision is ", config.gradient_precision(), ", must be F32 or BF16"));
  }
  if (config.reproducible() && config.gradient_precision() != EngineConfig::F32) {
    return absl::InvalidArgumentError("gradient_precision is BF16, but reproducible needs F32");
  }
  return AddContext(LossScaler::Create(LossScalerOptionsOf(config.loss_scale())).status(), "loss_scale");
}

// The first sample and value of `values`, an integer field, that `spec` has no place for.
template <typename T>
absl::Status CheckRange(const InputSpec& spec, const Array& array) {
  const absl::Span<const T> values = array.values<T>();
  const auto wrong = std::find_if(values.begin(), values.end(), [&](T value) {
    return (value < 0 || value >= spec.limit) && !(spec.may_be_ignored && value == kIgnoredTarget);
  });
  if (wrong == values.end()) return absl::OkStatus();
  const int64_t per_sample = static_cast<int64_t>(values.size()) / array.shape().dim(0);
  return absl::InvalidArgumentError(absl::StrCat(
      "batch field \"", spec.name, "\", sample ", (wrong - values.begin()) / per_sample, ": value ", *wrong,
      " is not in [0, ", spec.limit, ")", spec.may_be_ignored ? " and not -100 (ignored)" : ""));
}

}  // namespace

absl::Status ValidateConfig(const EngineConfig& config) {
  ARMATURE_RETURN_IF_ERROR(ValidateParallel(config.parallel()));
  ARMATURE_RETURN_IF_ERROR(NotNegative("microbatches", config.microbatches()));
  ARMATURE_RETURN_IF_ERROR(NotNegative("clip_norm", config.clip_norm()));
  ARMATURE_RETURN_IF_ERROR(NotNegative("threads", config.threads()));
  if (config.threads() > kMaxThreads) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", config.threads(), ", must be at most ", kMaxThreads));
  }
  ARMATURE_RETURN_IF_ERROR(NotNegative("memory_limit_bytes", config.memory_limit_bytes()));
  ARMATURE_RETURN_IF_ERROR(ValidateCheckpoint(config.checkpoint()));
  if (!EngineConfig::Recompute_IsValid(config.recompute())) {
    return absl::InvalidArgumentError(
        absl::StrCat("recompute is ", config.recompute(), ", must be NONE, FULL or SELECTIVE"));
  }
  ARMATURE_RETURN_IF_ERROR(NotNegative("recompute_every", config.recompute_every()));
  if (config.recompute_every() > 0 && config.recompute() != EngineConfig::FULL) {
    return absl::InvalidArgumentError("recompute_every is set, but recompute is not FULL");
  }
  if (config.recompute_parts_size() > 0 && config.recompute() != EngineConfig::SELECTIVE) {
    return absl::InvalidArgumentError("recompute_parts is set, but recompute is not SELECTIVE");
  }
  ARMATURE_RETURN_IF_ERROR(NotNegative("check_replicas_every", config.check_replicas_every()));
  ARMATURE_RETURN_IF_ERROR(ValidatePrecision(config));
  ARMATURE_RETURN_IF_ERROR(MakeUpdateRule(config.optimizer()).status());
  return MakeSchedule(config.learning_rate()).status();
}

absl::Status ValidateRecomputedParts(const EngineConfig& config, const Model& model) {
  if (config.recompute() != EngineConfig::SELECTIVE) return absl::OkStatus();
  std::vector<std::string> parts(config.recompute_parts().begin(), config.recompute_parts().end());
  if (parts.empty()) parts.emplace_back(kDefaultRecomputedPart);
  for (const std::string& part : parts) {
    if (std::find(model.parts.begin(), model.parts.end(), part) != model.parts.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("recompute_parts: model ", model.name, " has no part \"",
                                                   part, "\"", model.parts.empty() ? "" : "; it has ",
                                                   absl::StrJoin(model.parts, ", ")));
  }
  return absl::OkStatus();
}

absl::Status ValidateModel(const Model& model) {
  const auto invalid = [&](const auto&... what) {
    return absl::InvalidArgumentError(absl::StrCat("model ", model.name, ": ", what...));
  };
  if (model.blocks.empty()) return invalid("no blocks");
  if (model.losses.empty()) return invalid("no loss terms");
  for (size_t i = 0; i < model.blocks.size(); ++i) {
    if (model.blocks[i] == nullptr) return invalid("block ", i, " has no builder");
  }
  std::map<std::string, DType> inputs;
  for (const InputSpec& spec : model.inputs) {
    if (!inputs.emplace(spec.name, spec.dtype).second) {
      return invalid("the input \"", spec.name, "\" is declared twice");
    }
  }
  for (const LossTerm& term : model.losses) {
    if (term.counted_by.empty()) continue;
    const auto input = inputs.find(term.counted_by);
    if (input == inputs.end() || input->second != DType::kI32) {
      return invalid("loss term \"", term.name, "\" is counted by \"", term.counted_by,
                     "\", which is no i32 input");
    }
  }
  return absl::OkStatus();
}

absl::Status ValidateBatch(const Batch& batch, const Model& model, bool with_loss) {
  ARMATURE_RETURN_IF_ERROR(batch.Validate());
  if (batch.num_samples() == 0) return absl::InvalidArgumentError("the batch has no samples");
  for (const InputSpec& spec : model.inputs) {
    const Array* array = batch.Find(spec.name);
    if (array == nullptr) {
      if (spec.only_for_loss && !with_loss) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("the batch lacks the field \"", spec.name, "\" of model ", model.name));
    }
    if (array->dtype() != spec.dtype) {
      return absl::InvalidArgumentError(absl::StrCat("batch field \"", spec.name, "\" is ",
                                                     Name(array->dtype()), ", model ", model.name, " needs ",
                                                     Name(spec.dtype)));
    }
    if (spec.limit == 0) continue;
    if (spec.dtype == DType::kI32) ARMATURE_RETURN_IF_ERROR(CheckRange<int32_t>(spec, *array));
    if (spec.dtype == DType::kI64) ARMATURE_RETURN_IF_ERROR(CheckRange<int64_t>(spec, *array));
  }
  return absl::OkStatus();
}

std::vector<int64_t> CountTargets(const Batch& batch, const Model& model) {
  std::vector<int64_t> counts;
  for (const LossTerm& term : model.losses) {
    const Array* targets = term.counted_by.empty() ? nullptr : batch.Find(term.counted_by);
    if (targets == nullptr) {
      counts.push_back(batch.num_samples());
      continue;
    }
    const absl::Span<const int32_t> values = targets->values<int32_t>();
    counts.push_back(static_cast<int64_t>(values.size()) -
                     std::count(values.begin(), values.end(), kIgnoredTarget));
  }
  return counts;
}

}  // namespace armature
