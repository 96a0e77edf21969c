#include "armature/tools/training_run.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/data/language_model_source.h"
#include "armature/data/prefetching_source.h"
#include "armature/data/token_file.h"
#include "armature/models/gpt2.h"
#include "armature/tools/text_config.h"

namespace armature {
namespace {

Gpt2Config Gpt2Of(const TrainConfig& config) {
  const Gpt2& gpt2 = config.gpt2();
  Gpt2Config result;
  const auto set = [](int64_t value, int64_t& field) {
    if (value != 0) field = value;
  };
  set(gpt2.vocabulary(), result.vocabulary);
  set(gpt2.max_positions(), result.max_positions);
  set(gpt2.hidden(), result.hidden);
  set(gpt2.layers(), result.layers);
  set(gpt2.heads(), result.heads);
  if (gpt2.has_dropout()) result.dropout = gpt2.dropout();
  result.label_smoothing = gpt2.label_smoothing();
  return result;
}

int64_t SequenceLength(const TrainConfig& config) {
  return config.data().sequence_length() > 0 ? config.data().sequence_length() : Gpt2Of(config).max_positions;
}

absl::Status Validate(const TrainConfig& config) {
  if (config.model_case() == TrainConfig::MODEL_NOT_SET) {
    return absl::InvalidArgumentError("the config names no model; add gpt2 { ... }");
  }
  if (config.data().batch_size() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.batch_size is ", config.data().batch_size(), ", must be at least 1"));
  }
  if (config.max_steps() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_steps is ", config.max_steps(), ", must be at least 1"));
  }
  if (SequenceLength(config) > Gpt2Of(config).max_positions) {
    return absl::InvalidArgumentError(absl::StrCat("data.sequence_length ", SequenceLength(config),
                                                   " is more than gpt2.max_positions ",
                                                   Gpt2Of(config).max_positions));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const TokenFile>> OpenTokens(FileSystem& files, absl::string_view field,
                                                            const std::string& path,
                                                            const TrainConfig& config) {
  if (path.empty()) return absl::InvalidArgumentError(absl::StrCat(field, " is not set"));
  ARMATURE_ASSIGN_OR_RETURN(TokenFile file, TokenFile::Open(files, path));
  const int64_t vocabulary = Gpt2Of(config).vocabulary;
  if (file.vocabulary_size() > vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has tokens up to ", file.vocabulary_size() - 1,
                                                   ", gpt2.vocabulary is only ", vocabulary));
  }
  ARMATURE_RETURN_IF_ERROR(file.Verify());
  return std::make_shared<const TokenFile>(std::move(file));
}

}  // namespace

absl::StatusOr<TrainConfig> LoadTrainConfig(FileSystem& files, const std::string& path,
                                            const std::vector<std::string>& assignments) {
  ARMATURE_ASSIGN_OR_RETURN(const std::string text, files.Read(path));
  TrainConfig config;
  ARMATURE_RETURN_IF_ERROR(ParseTextConfig(text, path, config));
  for (const std::string& assignment : assignments)
    ARMATURE_RETURN_IF_ERROR(SetConfigField(assignment, config));
  ARMATURE_RETURN_IF_ERROR(Validate(config), path);
  return config;
}

absl::StatusOr<Model> MakeModel(const TrainConfig& config) { return MakeGpt2(Gpt2Of(config)); }

absl::StatusOr<std::unique_ptr<BatchSource>> MakeTrainingSource(FileSystem& files,
                                                                const TrainConfig& config) {
  ARMATURE_ASSIGN_OR_RETURN(auto file,
                            OpenTokens(files, "data.train_path", config.data().train_path(), config));
  LanguageModelOptions options;
  options.sequence_length = SequenceLength(config);
  options.batch_size = config.data().batch_size();
  options.seed = config.data().seed();
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<LanguageModelSource> source,
                            LanguageModelSource::Create(std::move(file), options));
  return std::make_unique<PrefetchingSource>(std::move(source), PrefetchOptions());
}

absl::StatusOr<std::unique_ptr<BatchSource>> MakeValidationSource(FileSystem& files,
                                                                  const TrainConfig& config) {
  ARMATURE_ASSIGN_OR_RETURN(
      auto file, OpenTokens(files, "data.validation_path", config.data().validation_path(), config));
  return LanguageModelSource::Create(std::move(file),
                                     EvaluationOptions(SequenceLength(config), config.data().batch_size()));
}

}  // namespace armature
