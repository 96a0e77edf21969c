#include "armature/engine/json_lines_sink.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "nlohmann/json.hpp"

namespace armature {

std::string ToJson(const StepResult& step) {
  // Ordered as declared, so that a person can read along a column.
  nlohmann::ordered_json line = {{"step", step.step},
                                 {"loss", step.loss},
                                 {"grad_norm", step.grad_norm},
                                 {"learning_rate", step.learning_rate},
                                 {"tokens", step.tokens},
                                 {"tokens_per_second", step.tokens_per_second()},
                                 {"step_seconds", absl::ToDoubleSeconds(step.duration)},
                                 {"skipped", step.skipped}};
  if (step.losses.size() > 1) {
    for (const auto& [name, loss] : step.losses) line[name] = loss;
  }
  if (step.skipped) line["skip_reason"] = step.skip_reason;
  if (!step.anomaly.empty()) line["anomaly"] = step.anomaly;
  return line.dump();
}

JsonLinesSink::JsonLinesSink(std::string path, std::unique_ptr<WritableFile> file)
    : path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<JsonLinesSink>> JsonLinesSink::Open(FileSystem& files,
                                                                   absl::string_view path) {
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, files.Append(path));
  return std::unique_ptr<JsonLinesSink>(new JsonLinesSink(std::string(path), std::move(file)));
}

absl::Status JsonLinesSink::Report(const StepResult& step) {
  return AddContext(file_->Append(absl::StrCat(ToJson(step), "\n")), path_);
}

}  // namespace armature
