// What `train` and `sample` make of a TrainConfig.
#ifndef ARMATURE_TOOLS_TRAINING_RUN_H_
#define ARMATURE_TOOLS_TRAINING_RUN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "armature/base/file_system.h"
#include "armature/data/batch_source.h"
#include "armature/layers/block.h"
#include "armature/tools/train_config.pb.h"

namespace armature {

// Reads a file of protobuf text, applies the assignments "path=value", and checks what belongs to no engine.
// Errors: NotFound; InvalidArgument with file, line and column, or naming the field.
absl::StatusOr<TrainConfig> LoadTrainConfig(FileSystem& files, const std::string& path,
                                            const std::vector<std::string>& assignments);

// Errors: InvalidArgument naming the field.
absl::StatusOr<Model> MakeModel(const TrainConfig& config);

// Shuffled windows of the training file, without end. Errors: those of the file; InvalidArgument if its
// tokens don't fit the model's vocabulary.
absl::StatusOr<std::unique_ptr<BatchSource>> MakeTrainingSource(FileSystem& files, const TrainConfig& config);
// The validation file once, in order.
absl::StatusOr<std::unique_ptr<BatchSource>> MakeValidationSource(FileSystem& files,
                                                                  const TrainConfig& config);

}  // namespace armature

#endif  // ARMATURE_TOOLS_TRAINING_RUN_H_
