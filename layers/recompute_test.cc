#include "armature/layers/recompute.h"

#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/layers/dropout.h"
#include "armature/layers/linear.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/elementwise.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kHidden = 6;

LinearOptions Square(int64_t in = kHidden) {
  LinearOptions options;
  options.in = in;
  options.out = kHidden;
  options.activation = Activation::kGeluErf;
  options.init = Initializer::Normal(0.5);
  return options;
}

// x + dropout(linear(x)), whose input is used twice.
class ResidualBlock : public Block {
 public:
  explicit ResidualBlock(ModuleBuilder builder)
      : linear_(builder.Scope("linear"), Square()), dropout_(builder, 0.5) {}
  Activations Forward(Context& context, const Activations& in) const override {
    return {dropout_.AddTo(context, in[0], linear_(context, in[0]))};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const Linear linear_;
  const Dropout dropout_;
};

// linear(a) * b, and b again: two inputs, and an output that is an input.
class TwoInputBlock : public Block {
 public:
  explicit TwoInputBlock(ModuleBuilder builder) : linear_(builder.Scope("linear"), Square()) {}
  Activations Forward(Context& context, const Activations& in) const override {
    return {ops::Multiply(linear_(context, in[0]), in[1]), in[1]};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const Linear linear_;
};

// linear(a) * 2b * b: the backward comes to b, then to a, then to b again.
class InterleavedBlock : public Block {
 public:
  explicit InterleavedBlock(ModuleBuilder builder) : linear_(builder.Scope("linear"), Square()) {}
  Activations Forward(Context& context, const Activations& in) const override {
    const Tensor twice = ops::Scale(in[1], 2);
    return {ops::Multiply(ops::Multiply(linear_(context, in[0]), twice), in[1])};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const Linear linear_;
};

class RecomputeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend());
    for (int i = 0; i < 4; ++i) {
      ModuleBuilder::Shared shared;
      shared.registry = &registry_;
      shared.block = i;
      ModuleBuilder builder(shared);
      if (i < 2) blocks_.push_back(std::make_unique<ResidualBlock>(builder.Scope(i == 0 ? "a" : "b")));
      if (i == 2) blocks_.push_back(std::make_unique<TwoInputBlock>(builder.Scope("c")));
      if (i == 3) blocks_.push_back(std::make_unique<InterleavedBlock>(builder.Scope("d")));
      ASSERT_THAT(shared.status, IsOk());
    }
    std::vector<double> values;
    for (int64_t i = 0; i < 2 * 3 * kHidden; ++i) values.push_back((i * 7 % 13 - 6) / 5.0);
    x_ = FromDoubles(*backend_, {2, 3, kHidden}, values);
    batch_.samples = 2;
    batch_.first_sample = 4;
  }

  struct Result {
    std::vector<double> out;
    std::vector<std::vector<double>> gradients;  // of x, then of the parameters
    int64_t saved_bytes = 0;
  };
  // `forward(context, x, run)` runs blocks by `run`, which recomputes or not.
  template <typename Forward>
  Result Run(bool recompute, const Forward& forward) {
    TestParameters parameters(*backend_, registry_);
    GradientPlace place(*backend_, x_.shape());
    Tape tape(*backend_);
    Context::Options options;
    options.parameters = &parameters;
    options.batch = &batch_;
    options.tape = &tape;
    options.training = true;
    options.seed = 5;
    Context context(*backend_, options);
    const auto run = [&](int block, const Activations& in) {
      return recompute ? Recompute(context, in, *blocks_[block]) : blocks_[block]->Forward(context, in);
    };
    Result result;
    const Tensor y = forward(tape.Watch(x_, &place), run);
    EXPECT_THAT(y.status(), IsOk());
    if (!y.ok()) return result;
    result.saved_bytes = tape.saved_bytes();
    result.out = ToDoubles(y.Detach());
    EXPECT_THAT(tape.Backward({y}, {x_}), IsOk());
    result.gradients = parameters.Gradients();
    result.gradients.insert(result.gradients.begin(), place.Values());
    return result;
  }
  template <typename Forward>
  void ExpectSameBits(const Forward& forward) {
    const Result plain = Run(false, forward), recomputed = Run(true, forward);
    EXPECT_EQ(recomputed.out, plain.out);
    EXPECT_EQ(recomputed.gradients, plain.gradients);
    EXPECT_LT(recomputed.saved_bytes, plain.saved_bytes);
  }

  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  std::vector<std::unique_ptr<Block>> blocks_;
  MicroBatch batch_;
  Tensor x_;
};

// Two layers with dropout .5, checkpointing on and off.
TEST_F(RecomputeTest, GradientsHaveTheSameBitsWithDropoutOn) {
  ExpectSameBits([](const Tensor& x, const auto& run) { return run(1, run(0, {x}))[0]; });
}

TEST_F(RecomputeTest, TheSameBlockTwiceAddsUpItsGradients) {
  ExpectSameBits([](const Tensor& x, const auto& run) { return run(0, run(1, run(0, {x})))[0]; });
}

TEST_F(RecomputeTest, AnInputThatIsAlsoUsedOutside) {
  ExpectSameBits([](const Tensor& x, const auto& run) {
    const Tensor inner = ops::Scale(x, 0.7);
    return ops::Add(ops::Multiply(inner, run(0, {inner})[0]), inner);
  });
}

TEST_F(RecomputeTest, AnOutputThatIsAnInput) {
  ExpectSameBits([](const Tensor& x, const auto& run) {
    const Activations out = run(2, {ops::Scale(x, 2), ops::Scale(x, 3)});
    return ops::Add(out[0], out[1]);
  });
}

TEST_F(RecomputeTest, OneValueAsTwoInputs) {
  for (int block : {2, 3}) {
    ExpectSameBits([block](const Tensor& x, const auto& run) { return run(block, {x, x})[0]; });
    ExpectSameBits([block](const Tensor& x, const auto& run) {
      const Tensor inner = ops::Scale(x, 0.7);
      return run(block, {inner, inner})[0];
    });
    ExpectSameBits([block](const Tensor& x, const auto& run) {
      const Tensor inner = ops::Scale(x, 0.7);
      return ops::Multiply(run(block, {inner, inner})[0], inner);
    });
  }
}

TEST_F(RecomputeTest, AnInputOnNoTapeGetsNoGradient) {
  ExpectSameBits([](const Tensor& x, const auto& run) {
    return ops::Multiply(run(2, {x.Detach(), x})[0], run(2, {x, x.Detach()})[0]);
  });
}

TEST_F(RecomputeTest, KeepsOnlyTheInputs) {
  const Result result =
      Run(true, [](const Tensor& x, const auto& run) { return run(1, run(0, {ops::Scale(x, 1)}))[0]; });
  EXPECT_EQ(result.saved_bytes, 2 * x_.size_bytes());
}

TEST_F(RecomputeTest, WithoutATapeTheBlockJustRuns) {
  TestParameters parameters(*backend_, registry_);
  Context::Options options;
  options.parameters = &parameters;
  options.batch = &batch_;
  Context context(*backend_, options);
  EXPECT_EQ(ToDoubles(Recompute(context, {x_}, *blocks_[0])[0]),
            ToDoubles(blocks_[0]->Forward(context, {x_})[0]));
}

TEST_F(RecomputeTest, TheBlocksErrorComesOut) {
  TestParameters parameters(*backend_, registry_);
  GradientPlace place(*backend_, {1, 5});
  Tape tape(*backend_);
  Context::Options options;
  options.parameters = &parameters;
  options.batch = &batch_;
  options.tape = &tape;
  Context context(*backend_, options);
  const Tensor x = FromDoubles(*backend_, {1, 5}, {1, 2, 3, 4, 5});
  EXPECT_THAT(Recompute(context, {tape.Watch(x, &place)}, *blocks_[0])[0].status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("Linear: x [1, 5]")));
}

}  // namespace
}  // namespace armature
