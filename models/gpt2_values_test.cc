// What GPT-2 computes: its loss and predictions, every parameter's gradient, and how many products that
// takes.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/layers/recompute.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/models/gpt2.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/loss.h"

namespace armature {
namespace {

constexpr int64_t kSamples = 2;

Gpt2Config Tiny() {
  Gpt2Config config;
  config.vocabulary = 7;
  config.max_positions = 4;
  config.hidden = 4;
  config.layers = 2;
  config.heads = 2;
  config.dropout = 0.2;
  config.init_stddev = 0.3;
  config.label_smoothing = 0.1;
  return config;
}

class Gpt2Values : public ::testing::Test {
 protected:
  void Build(const Gpt2Config& config, DType dtype, int64_t positions) {
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend());
    ASSERT_OK_AND_ASSIGN(const Model model, MakeGpt2(config));
    for (size_t i = 0; i < model.blocks.size(); ++i) {
      ModuleBuilder::Shared shared;
      shared.registry = &registry_;
      shared.block = static_cast<int>(i);
      ASSERT_OK_AND_ASSIGN(auto block, model.blocks[i](ModuleBuilder(shared)));
      ASSERT_THAT(shared.status, IsOk());
      blocks_.push_back(std::move(block));
    }
    parameters_ = std::make_unique<TestParameters>(*backend_, registry_, dtype);
    std::vector<int32_t> tokens, targets;
    for (int64_t i = 0; i < kSamples * positions; ++i) {
      tokens.push_back(static_cast<int32_t>((i * 5 + 3) % config.vocabulary));
      targets.push_back(i % 4 == 2 ? kIgnoredTarget : static_cast<int32_t>((i * 3 + 1) % config.vocabulary));
    }
    tokens_ = Ids({kSamples, positions}, tokens);
    targets_ = Ids({kSamples, positions}, targets);
  }
  Tensor Ids(const Shape& shape, const std::vector<int32_t>& ids) {
    return Tensor::FromHost<int32_t>(*backend_, shape, ids, DType::kI32);
  }

  struct How {
    bool with_targets = true;
    bool training = false;
    bool recompute = false;
    Tape* tape = nullptr;
  };
  // The last block's only result.
  Tensor Forward(const How& how) {
    batch_.samples = kSamples;
    batch_.fields = {{"tokens", tokens_}};
    if (how.with_targets) batch_.fields.emplace_back("targets", targets_);
    Context::Options options;
    options.parameters = parameters_.get();
    options.batch = &batch_;
    options.training = how.training;
    options.tape = how.tape;
    Context context(*backend_, options);
    Activations activations;
    for (const auto& block : blocks_) {
      activations =
          how.recompute ? Recompute(context, activations, *block) : block->Forward(context, activations);
    }
    EXPECT_EQ(activations.size(), 1u);
    EXPECT_THAT(activations[0].status(), IsOk());
    return activations[0];
  }

  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<TestParameters> parameters_;
  MicroBatch batch_;
  Tensor tokens_, targets_;
};

double Norm(const std::vector<double>& values) {
  double squares = 0;
  for (double value : values) squares += value * value;
  return std::sqrt(squares);
}

TEST_F(Gpt2Values, AnUntrainedModelKnowsNothing) {
  Gpt2Config config;
  config.vocabulary = 50;
  config.max_positions = 16;
  config.hidden = 32;
  config.layers = 2;
  config.heads = 4;
  Build(config, DType::kF32, 16);
  const double counted = kSamples * 16 * 3 / 4;
  EXPECT_NEAR(ToDoubles(Forward({}))[0] / counted, std::log(50.0), 0.05);
}

TEST_F(Gpt2Values, WithoutTargetsItPredictsAndTheLossIsThatOfThePredictions) {
  Build(Tiny(), DType::kF64, 4);
  How predict;
  predict.with_targets = false;
  const Tensor logits = Forward(predict);
  EXPECT_EQ(logits.shape(), (Shape{kSamples, 4, 7}));
  ops::CrossEntropyOptions options;
  options.smoothing = Tiny().label_smoothing;
  EXPECT_EQ(ToDoubles(ops::CrossEntropy(logits, targets_, options)), ToDoubles(Forward({})));
}

TEST_F(Gpt2Values, ATokenChangesNoEarlierPrediction) {
  Build(Tiny(), DType::kF64, 4);
  How predict;
  predict.with_targets = false;
  const std::vector<double> before = ToDoubles(Forward(predict));
  std::vector<int32_t> tokens(kSamples * 4);
  ASSERT_THAT(tokens_.ToHost(tokens.data()), IsOk());
  tokens[2] = (tokens[2] + 1) % 7;  // of sample 0
  tokens_ = Ids({kSamples, 4}, tokens);
  const std::vector<double> after = ToDoubles(Forward(predict));
  for (int position = 0; position < kSamples * 4; ++position) {
    const auto row = [&](const std::vector<double>& logits) {
      return std::vector<double>(logits.begin() + position * 7, logits.begin() + (position + 1) * 7);
    };
    EXPECT_EQ(row(before) == row(after), position < 2 || position >= 4) << position;
  }
}

TEST_F(Gpt2Values, EveryParametersGradientIsTheLosssDerivative) {
  Build(Tiny(), DType::kF64, 4);
  How how;
  how.training = true;  // with dropout, whose masks are the same in every pass
  {
    Tape tape(*backend_);
    how.tape = &tape;
    const Tensor loss = Forward(how);
    ASSERT_THAT(tape.Backward({loss}, {FromDoubles(*backend_, {}, {1}, DType::kF64)}), IsOk());
    how.tape = nullptr;
  }
  constexpr double kStep = 1e-5;
  for (const ParameterSpec& spec : registry_.specs()) {
    const std::vector<double> analytic = parameters_->Gradient(spec.name);
    const std::vector<double> values = parameters_->Values(spec.name);
    ASSERT_EQ(analytic.size(), values.size()) << spec.name;
    std::vector<double> numeric(values.size()), difference(values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const auto loss_at = [&](double value) {
        std::vector<double> moved = values;
        moved[i] = value;
        parameters_->Set(spec.name, moved);
        return ToDoubles(Forward(how))[0];
      };
      numeric[i] = (loss_at(values[i] + kStep) - loss_at(values[i] - kStep)) / (2 * kStep);
      difference[i] = analytic[i] - numeric[i];
    }
    parameters_->Set(spec.name, values);
    // The second term is for the keys' bias, which softmax ignores.
    EXPECT_LE(Norm(difference), 1e-7 * Norm(numeric) + 1e-9) << spec.name << ", of norm " << Norm(numeric);
  }
}

TEST_F(Gpt2Values, RecomputedBlocksGiveTheSameBits) {
  Build(Tiny(), DType::kF32, 4);
  std::vector<std::vector<std::vector<double>>> gradients;
  std::vector<int64_t> saved_bytes;
  for (bool recompute : {false, true}) {
    parameters_ = std::make_unique<TestParameters>(*backend_, registry_);
    Tape tape(*backend_);
    How how;
    how.training = true;
    how.recompute = recompute;
    how.tape = &tape;
    const Tensor loss = Forward(how);
    saved_bytes.push_back(tape.saved_bytes());
    ASSERT_THAT(tape.Backward({loss}, {FromDoubles(*backend_, {}, {1})}), IsOk());
    EXPECT_EQ(parameters_->Contributions("wte.weight"), 2) << "as table and as head";
    gradients.push_back(parameters_->Gradients());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
  EXPECT_LT(saved_bytes[1], saved_bytes[0] / 3);
}

}  // namespace
}  // namespace armature
