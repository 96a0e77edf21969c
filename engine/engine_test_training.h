// The same training in several layouts, and how far apart what came out is.
#ifndef ARMATURE_ENGINE_ENGINE_TEST_TRAINING_H_
#define ARMATURE_ENGINE_ENGINE_TEST_TRAINING_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {

inline EngineConfig Layout(EngineConfig config, int data, int sharding, int microbatches = 1) {
  config.mutable_parallel()->set_data(data);
  config.mutable_parallel()->set_sharding(sharding);
  config.mutable_parallel()->set_timeout_seconds(20);
  config.set_microbatches(microbatches);
  return config;
}

struct Trained {
  std::vector<float> weights;
  std::vector<double> losses, norms;
};

inline Trained Train(Engine& engine, int steps, int64_t samples) {
  Trained trained;
  for (int i = 0; i < steps; ++i) {
    absl::StatusOr<StepResult> step = engine.Step(Gpt2Batch(samples, i));
    EXPECT_THAT(step, IsOk());
    if (!step.ok()) return trained;
    trained.losses.push_back(step->loss);
    trained.norms.push_back(step->grad_norm);
  }
  trained.weights = Weights(engine);
  return trained;
}

inline Trained Train(const EngineConfig& config, int steps, int64_t samples, double dropout = 0) {
  const std::unique_ptr<Engine> engine = Make(config, MakeGpt2(TinyGpt2(dropout)));
  return engine == nullptr ? Trained() : Train(*engine, steps, samples);
}

inline double Distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

}  // namespace armature

#endif  // ARMATURE_ENGINE_ENGINE_TEST_TRAINING_H_
