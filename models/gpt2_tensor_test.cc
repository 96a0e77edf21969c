// GPT-2 on the ranks of a tensor group: loss, predictions, every parameter's gradient and the initial weights
// are those of one rank.
#include <cmath>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/layers/recompute.h"
#include "armature/layers/testing/tensor_ranks.h"
#include "armature/models/gpt2.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kSamples = 2, kPositions = 8;

Gpt2Config Tiny() {
  Gpt2Config config;
  config.vocabulary = 21;  // neither 2 nor 4 divide it
  config.max_positions = 10;
  config.hidden = 16;
  config.layers = 2;
  config.heads = 4;
  config.dropout = 0.2;
  config.init_stddev = 0.2;
  config.label_smoothing = 0.1;
  return config;
}

TensorRun OnTokens() {
  TensorRun run;
  run.samples = kSamples;
  run.training = true;
  run.fields = {{"tokens", {}}, {"targets", {}}};
  for (int i = 0; i < kSamples * kPositions; ++i) {
    run.fields[0].second.push_back((i * 5 + 3) % 21);
    run.fields[1].second.push_back(i % 4 == 2 ? kIgnoredTarget : (i * 3 + 1) % 21);
  }
  return run;
}

TensorBuild Build(const Gpt2Config& config, bool recompute = false) {
  return [=](ModuleBuilder::Shared& shared) -> TensorForward {
    const absl::StatusOr<Model> model = MakeGpt2(config);
    EXPECT_THAT(model, IsOk());
    const auto blocks = std::make_shared<std::vector<std::unique_ptr<Block>>>();
    for (size_t i = 0; i < model->blocks.size(); ++i) {
      shared.block = static_cast<int>(i);
      shared.num_layers = 0;
      blocks->push_back(*model->blocks[i](ModuleBuilder(shared)));
    }
    return [=](Context& context, const Tensor&) {
      Activations activations;
      for (const auto& block : *blocks) {
        activations =
            recompute ? Recompute(context, activations, *block) : block->Forward(context, activations);
      }
      return activations[0];
    };
  };
}

void ExpectEqualAtEverySize(TensorRun run, const TensorBuild& build, double tolerance) {
  const TensorResult serial = RunOnTensorRanks(run, build);
  for (int size : {2, 4}) {
    for (bool sequence_parallel : {false, true}) {
      SCOPED_TRACE(testing::Message() << "tensor " << size << (sequence_parallel ? ", by the sequence" : ""));
      run.size = size;
      run.sequence_parallel = sequence_parallel;
      ExpectNear(RunOnTensorRanks(run, build), serial, tolerance);
    }
  }
}

// With dropout in the embeddings, the attention weights and the residual branches.
TEST(Gpt2OnTensorRanks, LossAndGradientsEqualThoseOfOneRank) {
  ExpectEqualAtEverySize(OnTokens(), Build(Tiny()), 1e-11);
}

TEST(Gpt2OnTensorRanks, InF32Too) {
  TensorRun run = OnTokens();
  run.dtype = DType::kF32;
  ExpectEqualAtEverySize(run, Build(Tiny()), 1e-6);
}

TEST(Gpt2OnTensorRanks, WithRecomputationToo) {
  ExpectEqualAtEverySize(OnTokens(), Build(Tiny(), /*recompute=*/true), 1e-11);
}

TEST(Gpt2OnTensorRanks, PredictionsAreWholeOnEveryRank) {
  TensorRun run = OnTokens();
  run.training = false;
  run.fields.pop_back();
  const TensorResult serial = RunOnTensorRanks(run, Build(Tiny()));
  ASSERT_EQ(serial.y.size(), static_cast<size_t>(kSamples * kPositions * 21));
  run.size = 4;
  ExpectNear(RunOnTensorRanks(run, Build(Tiny())), serial, 1e-11);
}

TEST(Gpt2OnTensorRanks, HeadsThatTheRanksDontDivideFailTheBuild) {
  ParameterRegistry registry;
  ModuleBuilder::Shared shared;
  shared.registry = &registry;
  shared.tensor_size = 8;
  Build(Tiny())(shared);
  EXPECT_THAT(shared.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                      AllOf(HasSubstr("4 attention heads"), HasSubstr("tensor size 8"))));
}

}  // namespace
}  // namespace armature
