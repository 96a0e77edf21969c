#include "armature/layers/dropout.h"

#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/layers/attention.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/tensor/cpu/cpu_backend.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

// A dropout of 0.5 and an attention with dropout, on samples [first, first + samples) of a batch of 6.
class DropoutTest : public ::testing::Test {
 protected:
  static constexpr int64_t kSamples = 6, kPositions = 5, kHidden = 4;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend());
    shared_.registry = &registry_;
    dropout_ = std::make_unique<Dropout>(ModuleBuilder(shared_), 0.5);
    other_ = std::make_unique<Dropout>(ModuleBuilder(shared_), 0.5);
    SelfAttentionOptions options;
    options.hidden = kHidden;
    options.heads = 2;
    options.dropout = 0.5;
    options.init = options.projection_init = Initializer::Normal(1);
    attention_ = std::make_unique<SelfAttention>(ModuleBuilder(shared_), options);
    parameters_ = std::make_unique<TestParameters>(*backend_, registry_);
    std::vector<double> values;
    for (int64_t i = 0; i < kSamples * kPositions * kHidden; ++i) values.push_back((i * 37 % 19 + 1) / 8.0);
    x_ = FromDoubles(*backend_, {kSamples, kPositions, kHidden}, values);
  }
  struct When {
    bool training = true;
    uint64_t seed = 3;
    int64_t step = 7;
  };
  template <typename Layer>
  std::vector<double> Run(const Layer& layer, const When& when, int64_t first = 0,
                          int64_t samples = kSamples) {
    MicroBatch batch;
    batch.samples = samples;
    batch.first_sample = first;
    Context::Options options;
    options.parameters = parameters_.get();
    options.batch = &batch;
    options.training = when.training;
    options.seed = when.seed;
    options.step = when.step;
    Context context(*backend_, options);
    return ToDoubles(layer(context, x_.Slice(first, first + samples)));
  }

  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  ModuleBuilder::Shared shared_;
  std::unique_ptr<Dropout> dropout_, other_;
  std::unique_ptr<SelfAttention> attention_;
  std::unique_ptr<TestParameters> parameters_;
  Tensor x_;
};

TEST_F(DropoutTest, OffInEvaluation) {
  When evaluation;
  evaluation.training = false;
  EXPECT_EQ(Run(*dropout_, evaluation), ToDoubles(x_));
  When elsewhere = evaluation;
  elsewhere.seed = 99;
  EXPECT_EQ(Run(*attention_, evaluation), Run(*attention_, elsewhere));
  EXPECT_NE(Run(*attention_, evaluation), Run(*attention_, When()));
}

TEST_F(DropoutTest, MasksAreTheSameForEverySplitIntoMicrobatches) {
  const std::vector<double> dropped = Run(*dropout_, When()), attended = Run(*attention_, When());
  for (int64_t samples : {1, 2, 3}) {
    std::vector<double> dropped_parts, attended_parts;
    for (int64_t first = 0; first < kSamples; first += samples) {
      const std::vector<double> a = Run(*dropout_, When(), first, samples),
                                b = Run(*attention_, When(), first, samples);
      dropped_parts.insert(dropped_parts.end(), a.begin(), a.end());
      attended_parts.insert(attended_parts.end(), b.begin(), b.end());
    }
    EXPECT_EQ(dropped_parts, dropped) << samples << " samples at a time";
    EXPECT_EQ(attended_parts, attended) << samples << " samples at a time";
  }
}

TEST_F(DropoutTest, EveryLayerStepAndSeedHasItsOwnMask) {
  When step, seed;
  step.step = 8;
  seed.seed = 4;
  const std::vector<double> mask = Run(*dropout_, When());
  EXPECT_EQ(Run(*dropout_, When()), mask);
  EXPECT_NE(Run(*other_, When()), mask);
  EXPECT_NE(Run(*dropout_, step), mask);
  EXPECT_NE(Run(*dropout_, seed), mask);
}

TEST_F(DropoutTest, AddToIsTheResidualPlusTheDropped) {
  const auto add_to = [&](Context& context, const Tensor& x) { return dropout_->AddTo(context, x, x); };
  const std::vector<double> dropped = Run(*dropout_, When()), x = ToDoubles(x_);
  std::vector<double> sum;
  for (size_t i = 0; i < x.size(); ++i) sum.push_back(x[i] + dropped[i]);
  EXPECT_EQ(Run(add_to, When()), sum);
}

TEST_F(DropoutTest, ATensorWithoutSamplesOrFeaturesIsRefused) {
  MicroBatch batch;
  Context::Options options;
  options.batch = &batch;
  options.training = true;
  Context context(*backend_, options);
  for (const Shape& shape : {Shape{}, Shape{3}}) {
    const Tensor x = Tensor::Zeros(*backend_, shape, DType::kF32, MemoryCategory::kOther);
    EXPECT_THAT((*dropout_)(context, x).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x " + shape.ToString())));
  }
}

}  // namespace
}  // namespace armature
