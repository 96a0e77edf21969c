// Engines for tests, what can be seen of them, and where they get their batches.
#ifndef ARMATURE_ENGINE_ENGINE_TEST_ENGINES_H_
#define ARMATURE_ENGINE_ENGINE_TEST_ENGINES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"

namespace armature {

// SGD of learning rate 0.01, on one thread.
inline EngineConfig SgdConfig(int microbatches = 1) {
  EngineConfig config;
  config.mutable_optimizer()->mutable_sgd();
  config.mutable_learning_rate()->set_peak(0.01);
  config.set_microbatches(microbatches);
  config.set_threads(1);
  return config;
}

// AdamW, whose moments show in every later step.
inline EngineConfig AdamWConfig(int microbatches = 1) {
  EngineConfig config = SgdConfig(microbatches);
  config.mutable_optimizer()->mutable_adamw();
  return config;
}

// Null, and a failed test, on an error.
inline std::unique_ptr<Engine> Make(const EngineConfig& config, absl::StatusOr<Model> model,
                                    Environment environment = {}) {
  EXPECT_THAT(model, IsOk());
  if (!model.ok()) return nullptr;
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(config, *std::move(model), environment);
  EXPECT_THAT(engine, IsOk());
  return engine.ok() ? *std::move(engine) : nullptr;
}

// All weights, one behind the other.
inline std::vector<float> Weights(const Engine& engine) {
  std::vector<float> all;
  EXPECT_THAT(engine.ExportWeights([&](const NamedBuffer& weight) {
    const float* values = static_cast<const float*>(weight.view.data);
    all.insert(all.end(), values, values + weight.view.count);
    return absl::OkStatus();
  }),
              IsOk());
  return all;
}

// `count` batches, each made from its index.
class IndexedSource : public BatchSource {
 public:
  static constexpr int64_t kEndless = int64_t{1} << 60;

  IndexedSource(int64_t count, std::function<Batch(int64_t)> make) : count_(count), make_(std::move(make)) {}

  absl::StatusOr<absl::optional<Batch>> Next() override {
    if (next_ == count_) return absl::optional<Batch>();
    return absl::optional<Batch>(make_(next_++));
  }
  std::string Position() const override { return absl::StrCat(next_.load()); }
  absl::Status Restore(absl::string_view position) override {
    int64_t next = 0;
    if (!absl::SimpleAtoi(position, &next)) return absl::InvalidArgumentError("no index");
    next_ = next;
    return absl::OkStatus();
  }
  // Of the next batch. Any thread.
  int64_t next() const { return next_; }

 private:
  const int64_t count_;
  const std::function<Batch(int64_t)> make_;
  std::atomic<int64_t> next_{0};
};

}  // namespace armature

#endif  // ARMATURE_ENGINE_ENGINE_TEST_ENGINES_H_
