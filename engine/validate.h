// Checks of what comes from outside: the configuration as a whole, and each batch.
#ifndef ARMATURE_ENGINE_VALIDATE_H_
#define ARMATURE_ENGINE_VALIDATE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "armature/data/batch.h"
#include "armature/engine/config.pb.h"
#include "armature/layers/block.h"

namespace armature {

// Of one rank: more than any machine has, and less than what only a slip of the pen asks for.
constexpr int kMaxThreads = 1024;
inline constexpr char kDefaultRecomputedPart[] = "attention";

// Errors: InvalidArgument naming the field and its value; Unimplemented for a feature that is not built,
// naming its field and what to set instead.
absl::Status ValidateConfig(const EngineConfig& config);

// A model that a user put together: blocks and loss terms there, inputs named once, and each term counted by
// an i32 input. Errors: InvalidArgument naming what is wrong.
absl::Status ValidateModel(const Model& model);
// Errors: InvalidArgument if the model has no part of a name in recompute_parts, with those that it has.
absl::Status ValidateRecomputedParts(const EngineConfig& config, const Model& model);

// Every input of the model must be there, with its dtype, and hold only values that the model has a place
// for. Without `with_loss`, fields that only the loss needs may be absent. Errors: InvalidArgument naming
// field, sample and value.
absl::Status ValidateBatch(const Batch& batch, const Model& model, bool with_loss);

// What the sum of each loss term is divided by: entries of its field that are not ignored, or samples.
// The batch has passed ValidateBatch.
std::vector<int64_t> CountTargets(const Batch& batch, const Model& model);

}  // namespace armature

#endif  // ARMATURE_ENGINE_VALIDATE_H_
