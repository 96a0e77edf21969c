#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/engine/engine.h"
#include "armature/engine/json_lines_sink.h"
#include "armature/tools/commands.h"
#include "armature/tools/interrupt.h"
#include "armature/tools/progress.h"
#include "armature/tools/training_run.h"

namespace armature {
namespace {

// Goes on from the newest checkpoint. Not found is no error: the run starts from the beginning.
absl::Status Resume(Engine& engine, BatchSource& source, const TrainCommand& command,
                    const TrainConfig& config) {
  if (config.engine().checkpoint().directory().empty()) return absl::OkStatus();
  const absl::StatusOr<RestoreResult> restored = engine.Restore(&source);
  if (absl::IsNotFound(restored.status())) return absl::OkStatus();
  ARMATURE_RETURN_IF_ERROR(restored.status());
  for (const std::string& line : restored->skipped) std::cerr << "skipped: " << line << std::endl;
  if (command.fresh) {
    return absl::FailedPreconditionError(absl::StrCat(config.engine().checkpoint().directory(),
                                                      " has a checkpoint of step ", restored->step,
                                                      "; --fresh wants an empty directory"));
  }
  std::cout << "resumed from step " << restored->step << std::endl;
  return absl::OkStatus();
}

// Prints the loss over the validation file, if there is one.
absl::Status Validate(Engine& engine, FileSystem& files, const TrainConfig& config) {
  if (config.data().validation_path().empty()) return absl::OkStatus();
  ARMATURE_ASSIGN_OR_RETURN(const auto source, MakeValidationSource(files, config));
  ARMATURE_ASSIGN_OR_RETURN(const EvalResult result, engine.Evaluate(*source));
  std::cout << "step " << engine.step() << " validation loss " << result.loss << " over " << result.tokens
            << " tokens" << std::endl;
  return absl::OkStatus();
}

void PrintHowToResume(const TrainCommand& command) {
  std::cout << "resume with: armature train --config=" << command.config_path;
  for (const std::string& assignment : command.assignments) std::cout << " --set " << assignment;
  std::cout << std::endl;
}

absl::Status Train(Engine& engine, BatchSource& source, FileSystem& files, const TrainConfig& config) {
  Progress progress(std::cout, isatty(STDOUT_FILENO) != 0, config.max_steps(),
                    config.log_every() > 0 ? config.log_every() : 10);
  RunOptions options;
  options.on_step = [&](const StepResult& step) {
    progress.Show(step);
    if (Interrupted()) engine.RequestStop();
    return absl::OkStatus();
  };
  while (engine.step() < config.max_steps() && !Interrupted()) {
    const int64_t left = config.max_steps() - engine.step();
    options.max_steps = config.evaluate_every() > 0 ? std::min(left, config.evaluate_every()) : left;
    const absl::StatusOr<RunResult> run = engine.Run(source, options);
    progress.Finish();
    ARMATURE_RETURN_IF_ERROR(run.status());
    if (run->end == RunResult::End::kSourceEnded) break;
    if (!Interrupted()) ARMATURE_RETURN_IF_ERROR(Validate(engine, files, config));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Run(const TrainCommand& command, FileSystem& files) {
  ARMATURE_ASSIGN_OR_RETURN(const TrainConfig config,
                            LoadTrainConfig(files, command.config_path, command.assignments));
  ARMATURE_ASSIGN_OR_RETURN(const auto source, MakeTrainingSource(files, config));
  std::unique_ptr<JsonLinesSink> metrics;
  if (!config.metrics_path().empty()) {
    ARMATURE_ASSIGN_OR_RETURN(metrics, JsonLinesSink::Open(files, config.metrics_path()));
  }
  Environment environment;
  environment.files = &files;
  environment.metrics = metrics.get();
  ARMATURE_ASSIGN_OR_RETURN(Model model, MakeModel(config));
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            Engine::Create(config.engine(), std::move(model), environment));
  std::cout << engine->num_parameters() << " parameters" << std::endl;
  ARMATURE_RETURN_IF_ERROR(Resume(*engine, *source, command, config));
  CatchInterrupts();
  ARMATURE_RETURN_IF_ERROR(Validate(*engine, files, config));
  ARMATURE_RETURN_IF_ERROR(Train(*engine, *source, files, config));
  if (Interrupted()) std::cout << "stopped after step " << engine->step() << std::endl;
  if (!config.engine().checkpoint().directory().empty()) PrintHowToResume(command);
  return absl::OkStatus();
}

}  // namespace armature
