#include "armature/engine/validate.h"

#include <string>
#include <utility>
#include <vector>

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
      {"clip_norm: nan", "clip_norm"},
      {"threads: -2", "threads"},
      {"threads: 1025", "threads is 1025, must be at most 1024"},
      {"recompute: 7", "recompute is 7"},
      {"checkpoint { every_steps: -5 directory: 'd' }", "checkpoint.every_steps"},
      {"checkpoint { read_only: true }", "checkpoint.read_only"},
      {"checkpoint { read_only: true every_steps: 5 directory: 'd' }", "checkpoint.every_steps is 5"},
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
      {"parallel { pipeline: 2 }", "parallel.pipeline = 2"},
      {"parallel { context: 2 }", "parallel.context = 2"},
      {"parallel { schedule: GPIPE }", "parallel.schedule = GPIPE"},
  };
  for (const auto& [text, field] : cases) {
    EXPECT_THAT(Check(text), StatusIs(absl::StatusCode::kUnimplemented, HasSubstr(field))) << text;
  }
}

Model TwoInputModel() {
  Model model;
  model.name = "m";
  model.blocks.push_back([](ModuleBuilder) { return absl::UnimplementedError("never built"); });
  InputSpec tokens;
  tokens.name = "tokens";
  tokens.limit = 10;
  InputSpec targets = tokens;
  targets.name = "targets";
  targets.may_be_ignored = true;
  targets.only_for_loss = true;
  InputSpec ids;
  ids.name = "ids";
  ids.dtype = DType::kI64;
  ids.limit = 5;
  model.inputs = {tokens, targets, ids};
  model.losses = {LossTerm{"next", "targets"}, LossTerm{"class", ""}};
  return model;
}

Batch TwoInputBatch(std::vector<int32_t> tokens, std::vector<int32_t> targets, std::vector<int64_t> ids) {
  const int64_t samples = static_cast<int64_t>(ids.size());
  Batch batch;
  const Shape shape{samples, static_cast<int64_t>(tokens.size()) / samples};
  batch.fields.push_back({"tokens", *Array::FromValues<int32_t>(shape, tokens)});
  batch.fields.push_back({"targets", *Array::FromValues<int32_t>(shape, targets)});
  batch.fields.push_back({"ids", *Array::FromValues<int64_t>({samples}, ids)});
  return batch;
}

auto Invalid(const std::vector<std::string>& parts) {
  std::vector<::testing::Matcher<std::string>> matchers;
  for (const std::string& part : parts) matchers.push_back(HasSubstr(part));
  return StatusIs(absl::StatusCode::kInvalidArgument, ::testing::AllOfArray(matchers));
}

TEST(ValidateModel, SaysWhatIsMissing) {
  EXPECT_THAT(ValidateModel(TwoInputModel()), IsOk());
  Model model = TwoInputModel();
  model.blocks.clear();
  EXPECT_THAT(ValidateModel(model), Invalid({"model m", "no blocks"}));
  model = TwoInputModel();
  model.blocks.push_back(nullptr);
  EXPECT_THAT(ValidateModel(model), Invalid({"block 1 has no builder"}));
  model = TwoInputModel();
  model.losses.clear();
  EXPECT_THAT(ValidateModel(model), Invalid({"no loss terms"}));
  model = TwoInputModel();
  model.inputs.push_back(model.inputs[0]);
  EXPECT_THAT(ValidateModel(model), Invalid({"\"tokens\" is declared twice"}));
  for (const char* counted_by : {"ids", "nowhere"}) {
    model = TwoInputModel();
    model.losses[1].counted_by = counted_by;
    EXPECT_THAT(ValidateModel(model), Invalid({"\"class\"", counted_by, "no i32 input"}));
  }
}

TEST(ValidateBatch, NamesFieldSampleAndValue) {
  const Model model = TwoInputModel();
  const auto check = [&](const Batch& batch) { return ValidateBatch(batch, model, /*with_loss=*/true); };
  EXPECT_THAT(check(TwoInputBatch({0, 9, 1, 2}, {0, -100, 9, 3}, {0, 4})), IsOk());
  EXPECT_THAT(check(TwoInputBatch({0, 9, 1, 10}, {0, 0, 0, 0}, {0, 4})),
              Invalid({"\"tokens\"", "sample 1", "value 10", "[0, 10)"}));
  EXPECT_THAT(check(TwoInputBatch({-100, 9, 1, 1}, {0, 0, 0, 0}, {0, 4})),
              Invalid({"\"tokens\"", "sample 0", "value -100"}));
  EXPECT_THAT(check(TwoInputBatch({0, 0, 0, 0}, {0, 0, -1, 0}, {0, 4})),
              Invalid({"\"targets\"", "sample 1", "value -1", "-100 (ignored)"}));
  EXPECT_THAT(check(TwoInputBatch({0, 0, 0, 0}, {0, 0, 0, 0}, {0, int64_t{1} << 40})),
              Invalid({"\"ids\"", "sample 1", "value 1099511627776"}));
}

TEST(ValidateBatch, NamesAFieldThatIsMissingOrOfAnotherType) {
  const Model model = TwoInputModel();
  EXPECT_THAT(ValidateBatch(Batch(), model, true), Invalid({"without fields"}));
  Batch batch = TwoInputBatch({1}, {1}, {1});
  batch.fields.erase(batch.fields.begin() + 1);
  EXPECT_THAT(ValidateBatch(batch, model, true), Invalid({"lacks the field \"targets\" of model m"}));
  EXPECT_THAT(ValidateBatch(batch, model, false), IsOk());
  batch.fields[1].array = *Array::FromValues<float>({1}, std::vector<float>{1});
  EXPECT_THAT(ValidateBatch(batch, model, false), Invalid({"\"ids\" is f32", "needs i64"}));
  batch.fields.pop_back();
  EXPECT_THAT(ValidateBatch(batch, model, false), Invalid({"lacks the field \"ids\""}));
}

TEST(ValidateBatch, NeedsASampleAndEqualNumbersOfThem) {
  const Model model = TwoInputModel();
  Batch batch = TwoInputBatch({1, 1}, {1, 1}, {1, 1});
  batch.fields[2].array = *Array::FromValues<int64_t>({1}, std::vector<int64_t>{1});
  EXPECT_THAT(ValidateBatch(batch, model, true), Invalid({"\"ids\""}));
  for (Batch::Field& field : batch.fields) field.array = *Array::Create({0}, field.array.dtype());
  EXPECT_THAT(ValidateBatch(batch, model, true), Invalid({"no samples"}));
}

TEST(CountTargets, CountsWhatIsNotIgnoredOrSamples) {
  EXPECT_THAT(CountTargets(TwoInputBatch({0, 0, 0, 0}, {1, -100, -100, 0}, {0, 0}), TwoInputModel()),
              ::testing::ElementsAre(2, 2));
  EXPECT_THAT(CountTargets(TwoInputBatch({0, 0}, {-100, -100}, {0, 0}), TwoInputModel()),
              ::testing::ElementsAre(0, 2));
}

}  // namespace
}  // namespace armature
