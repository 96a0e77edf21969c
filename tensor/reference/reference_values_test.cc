// Values that a hand or a table gives, and edges that must not give NaN.
#include <cmath>
#include <limits>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/float16.h"
#include "armature/tensor/reference/reference_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename Args>
void Call(absl::Status (*kernel)(Stream&, const Args&), const Args& args) {
  ThreadTeam team(1);
  CpuStream stream(team);
  ASSERT_THAT(kernel(stream, args), IsOk());
}

const KernelTable& Table() { return ReferenceKernels(); }

TEST(MatMul, TransposesAndStepsOverRows) {
  const Floats a = {1, 2, 9, 3, 4, 9}, b = {5, 7, 6, 8};  // a is [2, 2] in rows of 3; b is stored transposed
  Floats c(4, 100);
  MatMulArgs args;
  args.a = a.data();
  args.b = b.data();
  args.c = c.data();
  args.m = args.n = args.k = 2;
  args.lda = 3;
  args.ldb = args.ldc = 2;
  args.transpose_b = true;
  Call(Table().matmul, args);
  EXPECT_THAT(c, ElementsAre(19, 22, 43, 50));
  args.accumulate = true;
  Call(Table().matmul, args);
  EXPECT_THAT(c, ElementsAre(38, 44, 86, 100));
}

TEST(MatMul, WithoutInnerElementsIsZero) {
  Floats c(4, 100);
  MatMulArgs args;
  args.c = c.data();
  args.m = args.n = args.ldc = 2;
  Call(Table().matmul, args);
  EXPECT_THAT(c, Each(0));
}

Floats LayerNormOf(const Floats& x) {
  const int64_t cols = static_cast<int64_t>(x.size());
  const Floats weight(cols, 1), bias(cols, 0);
  Floats y(cols), mean(1), rstd(1);
  NormArgs args;
  args.x = x.data();
  args.weight = weight.data();
  args.bias = bias.data();
  args.y = y.data();
  args.mean = mean.data();
  args.rstd = rstd.data();
  args.rows = 1;
  args.cols = cols;
  Call(Table().layer_norm, args);
  return y;
}

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
  EXPECT_THAT(LayerNormOf({40000, 40001, 40002, 40003}),
              Pointwise(FloatNear(1.4e-6f), {-1.341635420f, -.447211807f, .447211807f, 1.341635420f}));
  EXPECT_THAT(LayerNormOf(Floats(256, 1234)), Each(0));
}

TEST(Activation, HasTheValuesOfTables) {
  struct Row {
    Activation activation;
    double x, y;
  };
  for (const Row& row :
       {Row{Activation::kGeluErf, 1, .841344746}, Row{Activation::kGeluErf, 3, 2.995950306},
        Row{Activation::kGeluErf, -1, -.158655254}, Row{Activation::kGeluTanh, 1, .841191991},
        Row{Activation::kGeluTanh, 3, 2.996362608}, Row{Activation::kGeluTanh, -1, -.158808009},
        Row{Activation::kSilu, 1, .731058579}, Row{Activation::kRelu, -2, 0}}) {
    double y = 0;
    BiasActivationArgs args;
    args.x = &row.x;
    args.y = &y;
    args.rows = args.cols = 1;
    args.activation = row.activation;
    args.dtype = DType::kF64;
    Call(Table().bias_activation, args);
    EXPECT_NEAR(y, row.y, 1e-9);
  }
}

TEST(ActivationBackward, HasTheDerivativesOfGelu) {
  for (const auto& [activation, derivative] : {std::make_pair(Activation::kGeluErf, 1.083315471),
                                               std::make_pair(Activation::kGeluTanh, 1.082964084)}) {
    const double one = 1;
    double dx = 0;
    ActivationBackwardArgs args;
    args.pre = args.dy = &one;
    args.dx = &dx;
    args.count = 1;
    args.activation = activation;
    args.dtype = DType::kF64;
    Call(Table().activation_backward, args);
    EXPECT_NEAR(dx, derivative, 1e-9);
  }
}

Floats DropoutOf(const Floats& x, double p) {
  Floats y(x.size(), 100);
  DropoutArgs args;
  args.x = x.data();
  args.y = y.data();
  args.samples = 1;
  args.p = p;
  args.region.cols = args.region.global_cols = static_cast<int64_t>(x.size());
  Call(Table().dropout, args);
  return y;
}

TEST(Dropout, IsTheIdentityAtZeroAndZeroAtOne) {
  const Floats x = {1, -2, kInfinity, 0, 5};
  EXPECT_EQ(DropoutOf(x, 0), x);
  EXPECT_THAT(DropoutOf(x, 1), Each(0));
}

TEST(Dropout, KeepsAboutOneMinusPAndScalesIt) {
  const Floats y = DropoutOf(Floats(10000, 1), 0.25);
  int64_t kept = 0;
  for (float value : y) {
    if (value == 0) continue;
    EXPECT_FLOAT_EQ(value, 4.0f / 3);
    ++kept;
  }
  EXPECT_NEAR(kept, 7500, 200);
}

// Losses and gradients (for dloss 1) of rows of equal length.
struct Loss {
  Floats losses, gradients;

  Loss(const Floats& logits, const std::vector<int32_t>& targets, int64_t classes, double smoothing = 0) {
    const int64_t rows = static_cast<int64_t>(targets.size());
    const int64_t stride = static_cast<int64_t>(logits.size()) / rows;
    const float one = 1;
    Floats lse(rows);
    losses.resize(rows, 100);
    gradients.resize(logits.size(), 100);
    CrossEntropyArgs forward;
    forward.logits = logits.data();
    forward.targets = targets.data();
    forward.losses = losses.data();
    forward.lse = lse.data();
    forward.rows = rows;
    forward.classes = classes;
    forward.stride = stride;
    forward.smoothing = smoothing;
    Call(Table().cross_entropy, forward);
    CrossEntropyBackwardArgs backward;
    backward.logits = logits.data();
    backward.targets = targets.data();
    backward.lse = lse.data();
    backward.dloss = &one;
    backward.dlogits = gradients.data();
    backward.rows = rows;
    backward.classes = classes;
    backward.stride = stride;
    backward.smoothing = smoothing;
    Call(Table().cross_entropy_backward, backward);
  }
};

TEST(CrossEntropy, OfIgnoredTargetsIsZero) {
  const Loss loss({1, 2, 3, 4, 5, 6}, {kIgnoredTarget, kIgnoredTarget}, 3);
  EXPECT_THAT(loss.losses, Each(0));
  EXPECT_THAT(loss.gradients, Each(0));
}

TEST(CrossEntropy, OfUniformLogitsIsTheLogarithmOfTheClasses) {
  const Loss loss({7, 7, 7, 7}, {3}, 4);
  EXPECT_NEAR(loss.losses[0], 1.386294361, 1e-6);
  EXPECT_THAT(loss.gradients, ElementsAre(.25f, .25f, .25f, -.75f));
}

TEST(CrossEntropy, SmoothsOverTheRealClasses) {
  EXPECT_NEAR(Loss({0, 1, 2, 3, 4, 5, 6, 7}, {5}, 8, .1).losses[0], 2.608339626, 2e-6);
}

TEST(CrossEntropy, LeavesPaddedColumnsOut) {
  const Loss loss({1, 2, 3, 0}, {2}, 3);
  EXPECT_NEAR(loss.losses[0], .407605964, 1e-6);
  EXPECT_EQ(loss.gradients[3], 0);
}

TEST(CrossEntropy, OfATargetThatIsNoClassIsNaN) {
  for (int32_t target : {-1, 3}) {
    const Loss loss({1, 2, 3}, {target}, 3);
    EXPECT_TRUE(std::isnan(loss.losses[0]));
    EXPECT_TRUE(std::isnan(loss.gradients[0]));
  }
}

TEST(CrossEntropy, OfFarLogitsIsFinite) {
  EXPECT_FLOAT_EQ(Loss({10000, 0}, {1}, 2).losses[0], 10000);
  EXPECT_FLOAT_EQ(Loss({10000, 0}, {0}, 2).losses[0], 0);
}

// Queries of one head over two keys of dimension 1; the second query's segment has no key.
struct Attended {
  Floats out, lse, dq, dk, dv;

  Attended(int64_t queries, const Floats& dout) : out(queries), lse(queries), dq(queries), dk(2), dv(2) {
    const Floats q = {1, 2}, k = {3, -1}, v = {5, 7};
    const std::vector<int32_t> q_segments = {0, 1}, kv_segments = {0, 0};
    AttentionBackwardArgs backward;
    AttentionShape& shape = backward.shape;
    shape.batch = shape.heads = shape.kv_heads = shape.dim = 1;
    shape.q_len = queries;
    shape.kv_len = 2;
    shape.q_stride = shape.k_stride = shape.v_stride = shape.out_stride = 1;
    shape.q_segments = q_segments.data();
    shape.kv_segments = kv_segments.data();
    AttentionArgs forward;
    forward.shape = shape;
    forward.q = backward.q = q.data();
    forward.k = backward.k = k.data();
    forward.v = backward.v = v.data();
    forward.out = out.data();
    forward.lse = lse.data();
    Call(Table().attention, forward);
    backward.out = out.data();
    backward.lse = lse.data();
    backward.dout = dout.data();
    backward.dq = dq.data();
    backward.dk = dk.data();
    backward.dv = dv.data();
    Call(Table().attention_backward, backward);
  }
};

TEST(Attention, WeighsValuesByTheSoftmaxOfScores) {
  const Attended one(1, {1});  // scores 3 and -1
  EXPECT_NEAR(one.out[0], 5 * .982013790 + 7 * .017986210, 1e-6);
  EXPECT_NEAR(one.lse[0], 3.018149927, 1e-6);
}

// Two query heads share one key head, positions lie in rows of 5, and the last of two queries stands at the
// last of three keys. Scores are 0, so that a query gets the mean of the values it sees.
TEST(Attention, CausalQueriesAlignWithTheLastKeys) {
  const Floats q(2 * 5, 0), k(3 * 5, 0);
  const Floats v = {1, 10, 9, 9, 9, 2, 20, 9, 9, 9, 6, 60, 9, 9, 9};
  Floats out(2 * 5, 100), lse(2 * 2, 100);
  AttentionArgs args;
  AttentionShape& shape = args.shape;
  shape.batch = shape.kv_heads = 1;
  shape.heads = shape.q_len = shape.dim = 2;
  shape.kv_len = 3;
  shape.q_stride = shape.k_stride = shape.v_stride = shape.out_stride = 5;
  shape.causal = true;
  args.q = q.data();
  args.k = k.data();
  args.v = v.data();
  args.out = out.data();
  args.lse = lse.data();
  Call(Table().attention, args);
  EXPECT_THAT(out, ElementsAre(1.5, 15, 1.5, 15, 100, 3, 30, 3, 30, 100));
  EXPECT_THAT(lse, Pointwise(FloatNear(1e-6f), {.693147181f, 1.098612289f, .693147181f, 1.098612289f}));
}

TEST(Attention, QueryWithoutKeysGivesZeroAndDisturbsNoGradient) {
  const Attended both(2, {1, 1}), first(1, {1});
  EXPECT_EQ(both.out[1], 0);
  EXPECT_EQ(both.lse[1], -kInfinity);
  EXPECT_EQ(both.dq[1], 0);
  EXPECT_EQ(both.out[0], first.out[0]);
  EXPECT_EQ(both.dq[0], first.dq[0]);
  EXPECT_EQ(both.dk, first.dk);
  EXPECT_EQ(both.dv, first.dv);
}

TEST(Cast, RoundsToNearestEven) {
  const Floats x = {1.00390625f, 65520.0f, -0.0f};
  std::vector<BFloat16> bf16(3);
  std::vector<Float16> f16(3);
  CastArgs args;
  args.x = x.data();
  args.y = bf16.data();
  args.count = 3;
  args.to = DType::kBF16;
  Call(Table().cast, args);
  EXPECT_EQ(bf16[0].bits, 0x3F80);
  EXPECT_EQ(bf16[2].bits, 0x8000);
  args.y = f16.data();
  args.to = DType::kF16;
  Call(Table().cast, args);
  EXPECT_EQ(f16[1].bits, 0x7C00);
}

TEST(RandomFill, GivesAPartTheWholesNumbers) {
  RandomFillArgs args;
  args.region.key = MakeRandomKey(1, RandomPurpose::kInitialize, 0, 2);
  args.region.rows = 4;
  args.region.cols = args.region.global_cols = 6;
  for (bool normal : {true, false}) {
    args.normal = normal;
    Floats whole(24), part(4);
    args.y = whole.data();
    Call(Table().random_fill, args);
    RandomFillArgs corner = args;
    corner.y = part.data();
    corner.region.rows = corner.region.cols = 2;
    corner.region.row_offset = 1;
    corner.region.col_offset = 3;
    Call(Table().random_fill, corner);
    EXPECT_THAT(part, ElementsAre(whole[9], whole[10], whole[15], whole[16]));
  }
}

TEST(EveryKernel, RefusesIntegers) {
  ThreadTeam team(1);
  CpuStream stream(team);
  FillArgs args;
  args.dtype = DType::kI32;
  EXPECT_THAT(Table().fill(stream, args), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace armature
