#include "armature/engine/validate.h"

#include <string>

#include "armature/base/status_matchers.h"
#include "google/protobuf/text_format.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

absl::Status Check(const std::string& text) {
  EngineConfig config;
  config.mutable_learning_rate()->set_peak(1);
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(text, &config)) << text;
  return ValidateConfig(config);
}

TEST(ValidateConfig, TheDefaultsAreFine) { EXPECT_THAT(Check(""), IsOk()); }

TEST(ValidateConfig, EveryBadValueIsNamedByItsField) {
  const std::pair<const char*, const char*> cases[] = {
      {"microbatches: -1", "microbatches is -1"},
      {"clip_norm: -0.5", "clip_norm"},
      {"threads: -2", "threads"},
      {"memory_limit_bytes: -1", "memory_limit_bytes"},
      {"checkpoint { every_steps: 5 }", "checkpoint.directory"},
      {"checkpoint { keep_last: -1 }", "checkpoint.keep_last"},
      {"parallel { data: -1 }", "parallel.data"},
      {"parallel { sharding: 4 }", "parallel.sharding"},
      {"optimizer { adamw { beta1: 1 } }", "optimizer.adamw"},
      {"optimizer { sgd { momentum: -1 } }", "optimizer.sgd"},
      {"optimizer { lamb { eps: 0 } }", "optimizer.lamb"},
      {"optimizer { rmsprop { alpha: 2 } }", "optimizer.rmsprop"},
      {"optimizer { adagrad { eps: -1 } }", "optimizer.adagrad"},
      {"optimizer { lion { beta2: 1 } }", "optimizer.lion"},
      {"optimizer { adam { eps: 0 } }", "optimizer.adam"},
      {"learning_rate { peak: 0 }", "learning_rate"},
      {"learning_rate { warmup_steps: 9 total_steps: 3 cosine {} }", "learning_rate"},
      {"learning_rate { total_steps: 9 warmup_stable_decay { decay_steps: 10 } }", "learning_rate"},
  };
  for (const auto& [text, field] : cases) {
    EXPECT_THAT(Check(text), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(field))) << text;
  }
}

TEST(ValidateConfig, WhatIsNotBuiltIsRefusedByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"parallel { data: 2 }", "parallel.data = 2"},
      {"parallel { tensor: 2 }", "parallel.tensor = 2"},
      {"parallel { pipeline: 2 }", "parallel.pipeline = 2"},
      {"parallel { context: 2 }", "parallel.context = 2"},
      {"parallel { sharding: 1 }", "parallel.sharding = 1"},
      {"parallel { sequence_parallel: true }", "parallel.sequence_parallel"},
      {"parallel { schedule: GPIPE }", "parallel.schedule = GPIPE"},
      {"precision: BF16", "precision = BF16"},
      {"reproducible: true", "reproducible"},
  };
  for (const auto& [text, field] : cases) {
    EXPECT_THAT(Check(text), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(field))) << text;
  }
}

}  // namespace
}  // namespace armature
