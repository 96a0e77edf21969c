#include <iostream>

#include "armature/engine/engine.h"
#include "armature/models/gpt2.h"

// Trains a small GPT on one batch, over and over. A service would take its batches from a BatchSource.
absl::Status Train(const armature::Batch& batch) {
  armature::Gpt2Config gpt;
  gpt.vocabulary = 256;
  gpt.hidden = 64;
  gpt.layers = 2;
  gpt.heads = 4;
  absl::StatusOr<armature::Model> model = armature::MakeGpt2(gpt);
  if (!model.ok()) return model.status();
  armature::EngineConfig config;
  config.mutable_learning_rate()->set_peak(3e-3);
  absl::StatusOr<std::unique_ptr<armature::Engine>> engine =
      armature::Engine::Create(config, *std::move(model));
  if (!engine.ok()) return engine.status();
  for (int i = 0; i < 30; ++i) {
    absl::StatusOr<armature::StepResult> step = (*engine)->Step(batch);
    if (!step.ok()) return step.status();
    std::cout << "step " << step->step << " loss " << step->loss << "\n";
  }
  return absl::OkStatus();
}
