// What operations give for small inputs whose right values are known, among them those that other engines get
// wrong.
#include <cmath>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/activation.h"
#include "armature/tensor/ops/attention.h"
#include "armature/tensor/ops/dropout.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/embedding.h"
#include "armature/tensor/ops/linear.h"
#include "armature/tensor/ops/loss.h"
#include "armature/tensor/ops/norm.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Pointwise;

class OpsValues : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend()); }
  Tensor Make(const Shape& shape, const std::vector<double>& values) {
    return FromDoubles(*backend_, shape, values);
  }
  Tensor Ids(const std::vector<int32_t>& ids) {
    return Tensor::FromHost<int32_t>(*backend_, {static_cast<int64_t>(ids.size())}, ids, DType::kI32);
  }
  // The value of a loss [] and its gradient for x.
  struct LossAndGradient {
    double loss = 0;
    std::vector<double> gradient;
  };
  LossAndGradient CrossEntropyOf(const Shape& shape, const std::vector<double>& logits,
                                 const std::vector<int32_t>& targets,
                                 const ops::CrossEntropyOptions& options = {}) {
    GradientPlace place(*backend_, shape);
    Tape tape(*backend_);
    const Tensor x = Make(shape, logits);
    const Tensor loss = ops::CrossEntropy(tape.Watch(x, &place), Ids(targets), options);
    EXPECT_EQ(loss.shape(), Shape());
    EXPECT_THAT(tape.Backward({loss}, {Make({}, {1})}), IsOk());
    return {ToDoubles(loss)[0], place.Values()};
  }

  std::unique_ptr<Backend> backend_;
};

TEST_F(OpsValues, AMicrobatchOfIgnoredTargetsGivesNoLossAndNoNan) {
  const auto ignored = CrossEntropyOf({2, 4}, std::vector<double>(8, 0), {kIgnoredTarget, kIgnoredTarget});
  const auto uniform = CrossEntropyOf({2, 4}, std::vector<double>(8, 0), {1, 3});
  EXPECT_EQ(ignored.loss, 0);
  EXPECT_THAT(ignored.gradient, Each(0.0));
  EXPECT_NEAR((ignored.loss + uniform.loss) / 2, 1.386294361, 1e-6);
  EXPECT_THAT(uniform.gradient, ElementsAre(.25, -.75, .25, .25, .25, .25, .25, -.75));
}

TEST_F(OpsValues, PaddedVocabularyTakesNoPart) {
  ops::CrossEntropyOptions options;
  options.classes = 3;
  const auto padded = CrossEntropyOf({1, 4}, {1, 2, 3, 0}, {2}, options);
  EXPECT_NEAR(padded.loss, .407605964, 4e-7);
  EXPECT_EQ(padded.gradient[3], 0.0);
  // The log of the sum of exponentials is kept in f32, and its rounding is in every probability.
  EXPECT_NEAR(padded.gradient[0] + padded.gradient[1] + padded.gradient[2], 0, 1e-6);
  EXPECT_NEAR(CrossEntropyOf({1, 3}, {1, 2, 3}, {2}).loss, padded.loss, 1e-7);
}

TEST_F(OpsValues, LabelSmoothingSpreadsOverTheRealClassesOnly) {
  ops::CrossEntropyOptions options;
  options.smoothing = 0.1;
  const std::vector<double> logits = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_NEAR(CrossEntropyOf({1, 8}, logits, {5}, options).loss, 2.608339626, 3e-6);
  options.classes = 8;
  std::vector<double> padded = logits;
  padded.insert(padded.end(), {9, 9});
  const auto result = CrossEntropyOf({1, 10}, padded, {5}, options);
  EXPECT_NEAR(result.loss, 2.608339626, 3e-6);
  EXPECT_EQ(result.gradient[8], 0.0);
}

TEST_F(OpsValues, HugeLogitsGiveFiniteLosses) {
  const auto right = CrossEntropyOf({1, 3}, {1e4, -1e4, 0}, {0});
  EXPECT_EQ(right.loss, 0);
  const auto wrong = CrossEntropyOf({1, 3}, {1e4, -1e4, 0}, {1});
  EXPECT_NEAR(wrong.loss, 2e4, 1e-2);
  EXPECT_THAT(wrong.gradient, ElementsAre(1, -1, 0));
  EXPECT_THAT(ToDoubles(ops::Softmax(Make({1, 3}, {3e38, 3e38, -3e38}))), ElementsAre(.5, .5, 0));
}

// Two queries, of which the second sees no key.
TEST_F(OpsValues, AQueryWithoutKeysLeavesTheOthersAlone) {
  std::vector<std::vector<double>> results[2];
  for (int64_t queries : {1, 2}) {
    ops::AttentionOptions options;
    const Tensor kv_segments =
        Tensor::FromHost<int32_t>(*backend_, {1, 2}, std::vector<int32_t>{1, 1}, DType::kI32);
    const std::vector<int32_t> segments = {1, 2};
    options.q_segments = Tensor::FromHost<int32_t>(*backend_, {1, queries},
                                                   absl::MakeConstSpan(segments).first(queries), DType::kI32);
    options.kv_segments = kv_segments;
    GradientPlace q_place(*backend_, {1, queries, 1, 2}), k_place(*backend_, {1, 2, 1, 2}),
        v_place(*backend_, {1, 2, 1, 2});
    std::vector<double> q = {0.3, -1, 5, 7}, seed = {1, 2, 0, 0};
    q.resize(queries * 2);
    seed.resize(queries * 2);
    const Tensor q_value = Make({1, queries, 1, 2}, q), k = Make({1, 2, 1, 2}, {1, 2, 3, -4}),
                 v = Make({1, 2, 1, 2}, {0.5, 1, -2, 4});
    Tape tape(*backend_);
    const Tensor out = ops::Attention(tape.Watch(q_value, &q_place), tape.Watch(k, &k_place),
                                      tape.Watch(v, &v_place), options);
    std::vector<double> values = ToDoubles(out);
    if (queries == 2) {
      EXPECT_THAT(std::vector<double>(values.begin() + 2, values.end()), ElementsAre(0, 0));
    }
    ASSERT_THAT(tape.Backward({out}, {Make({1, queries, 1, 2}, seed)}), IsOk());
    std::vector<double> dq = q_place.Values();
    if (queries == 2) {
      EXPECT_THAT(std::vector<double>(dq.begin() + 2, dq.end()), ElementsAre(0, 0));
    }
    values.resize(2);
    dq.resize(2);
    results[queries - 1] = {values, dq, k_place.Values(), v_place.Values()};
  }
  for (const auto& tensor : results[0]) {
    for (double value : tensor) EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST_F(OpsValues, FusedAttentionEqualsThatOfSeparateTensors) {
  const int64_t batch = 2, positions = 5, heads = 4, kv_heads = 2, dim = 3,
                width = (heads + 2 * kv_heads) * dim;
  std::vector<double> fused(batch * positions * width), q, k, v;
  for (size_t i = 0; i < fused.size(); ++i) fused[i] = std::sin(static_cast<double>(i));
  for (int64_t row = 0; row < batch * positions; ++row) {
    const auto begin = fused.begin() + row * width;
    q.insert(q.end(), begin, begin + heads * dim);
    k.insert(k.end(), begin + heads * dim, begin + (heads + kv_heads) * dim);
    v.insert(v.end(), begin + (heads + kv_heads) * dim, begin + width);
  }
  ops::AttentionOptions options;
  options.heads = heads;
  options.kv_heads = kv_heads;
  options.causal = true;
  options.dropout = 0.25;
  EXPECT_EQ(ToDoubles(ops::SelfAttention(Make({batch, positions, width}, fused), options)),
            ToDoubles(ops::Attention(Make({batch, positions, heads, dim}, q),
                                     Make({batch, positions, kv_heads, dim}, k),
                                     Make({batch, positions, kv_heads, dim}, v), options)));
}

TEST_F(OpsValues, LayerNormOfLargeAndOfConstantRows) {
  const Tensor one = Make({4}, {1, 1, 1, 1}), zero = Make({4}, {0, 0, 0, 0});
  EXPECT_THAT(ToDoubles(ops::LayerNorm(Make({1, 4}, {40000, 40001, 40002, 40003}), one, zero)),
              Pointwise(DoubleNear(1.5e-6), {-1.341635420, -.447211807, .447211807, 1.341635420}));
  const std::vector<double> ones(256, 1), constant(256, 1234);
  EXPECT_THAT(ToDoubles(ops::LayerNorm(Make({1, 256}, constant), Make({256}, ones), Tensor())), Each(0.0));
}

TEST_F(OpsValues, GeluInBothForms) {
  const Tensor x = Make({3}, {1, 3, -1});
  EXPECT_THAT(ToDoubles(ops::Activate(x, Activation::kGeluErf)),
              Pointwise(DoubleNear(1e-6), {.841344746, 2.995950306, -.158655254}));
  EXPECT_THAT(ToDoubles(ops::Activate(x, Activation::kGeluTanh)),
              Pointwise(DoubleNear(1e-6), {.841191991, 2.996362608, -.158808009}));
  for (const auto& [activation, derivative] :
       {std::pair(Activation::kGeluErf, 1.083315471), std::pair(Activation::kGeluTanh, 1.082964084)}) {
    GradientPlace place(*backend_, {1});
    Tape tape(*backend_);
    const Tensor y = ops::Activate(tape.Watch(x.Slice(0, 1), &place), activation);
    ASSERT_THAT(tape.Backward({y}, {Make({1}, {1})}), IsOk());
    EXPECT_NEAR(place.Values()[0], derivative, 1.1e-6);
  }
}

TEST_F(OpsValues, DropoutOfNothingIsTheIdentityAndOfAllGivesZeros) {
  RandomRegion region;
  region.cols = region.global_cols = 4;
  const Tensor x = Make({2, 4}, {1, -2, 3, -4, 5, -6, 7, -8}),
               residual = Make({2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  EXPECT_EQ(ops::Dropout(x, Tensor(), 0, region).data(), x.data());
  EXPECT_THAT(ToDoubles(ops::Dropout(x, residual, 0, region)), ElementsAre(2, 0, 6, 0, 10, 0, 14, 0));
  EXPECT_THAT(ToDoubles(ops::Dropout(x, Tensor(), 1, region)), Each(0.0));
  EXPECT_EQ(ToDoubles(ops::Dropout(x, residual, 1, region)), ToDoubles(residual));
  GradientPlace place(*backend_, {2, 4});
  Tape tape(*backend_);
  const Tensor y = ops::Dropout(tape.Watch(x, &place), residual, 1, region);
  ASSERT_THAT(tape.Backward({y}, {x}), IsOk());
  EXPECT_THAT(place.Values(), Each(0.0));

  ops::AttentionOptions options;
  options.dropout = 1;
  EXPECT_THAT(ToDoubles(ops::Attention(Make({1, 2, 1, 2}, {1, 2, 3, 4}), Make({1, 2, 1, 2}, {1, 2, 3, 4}),
                                       Make({1, 2, 1, 2}, {1, 2, 3, 4}), options)),
              Each(0.0));
}

TEST_F(OpsValues, DropoutKeepsTheMean) {
  const int64_t n = 1 << 16;
  RandomRegion region;
  region.key = MakeRandomKey(3, RandomPurpose::kDropout, 1, 1);
  region.cols = region.global_cols = n;
  double sum = 0;
  int64_t kept = 0;
  for (double value :
       ToDoubles(ops::Dropout(Make({1, n}, std::vector<double>(n, 1)), Tensor(), 0.25, region))) {
    EXPECT_TRUE(value == 0 || std::abs(value - 1 / 0.75) < 1e-6) << value;
    sum += value;
    kept += value != 0;
  }
  EXPECT_NEAR(sum / n, 1, 0.012);  // five standard deviations
  EXPECT_NEAR(static_cast<double>(kept) / n, 0.75, 0.009);
}

TEST_F(OpsValues, EmbeddingRowsThatAnotherRankHasAreZero) {
  const Tensor table = Make({2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(ToDoubles(ops::Embedding(table, Ids({5, 4, 6, 3, 0}), /*first_row=*/4)),
              ElementsAre(3, 4, 1, 2, 0, 0, 0, 0, 0, 0));
}

TEST_F(OpsValues, LinearInBothLayoutsOfTheWeight) {
  const Tensor x = Make({2, 2}, {1, 2, 3, 4}), b = Make({3}, {10, 20, 30});
  ops::LinearOptions options;
  EXPECT_THAT(ToDoubles(ops::Linear(x, Make({2, 3}, {1, 2, 3, 4, 5, 6}), b, options)),
              ElementsAre(19, 32, 45, 29, 46, 63));
  options.weight_is_out_in = true;
  EXPECT_THAT(ToDoubles(ops::Linear(x, Make({3, 2}, {1, 4, 2, 5, 3, 6}), b, options)),
              ElementsAre(19, 32, 45, 29, 46, 63));
}

// A rank may get a microbatch without samples: results have no elements, and weights get zeros for gradients.
TEST_F(OpsValues, ABatchOfNoSamplesGivesZeroGradientsToWeights) {
  GradientPlace w(*backend_, {3, 4}), b(*backend_, {4}), norm(*backend_, {4}), norm_bias(*backend_, {4}),
      table(*backend_, {5, 3}), positions(*backend_, {2, 3});
  const Tensor table_value = Make({5, 3}, std::vector<double>(15, 1)),
               w_value = Make({3, 4}, std::vector<double>(12, 1)), vector = Make({4}, {1, 1, 1, 1}),
               positions_value = Make({2, 3}, std::vector<double>(6, 1));
  Tape tape(*backend_);
  const Tensor ids = Tensor::Empty(*backend_, {0, 2}, DType::kI32, MemoryCategory::kOther);
  Tensor x = ops::Embedding(tape.Watch(table_value, &table), ids);
  EXPECT_EQ(x.shape(), (Shape{0, 2, 3}));
  x = ops::AddBroadcast(x, tape.Watch(positions_value, &positions));
  x = ops::Linear(x, tape.Watch(w_value, &w), tape.Watch(vector, &b));
  x = ops::LayerNorm(x, tape.Watch(vector, &norm), tape.Watch(vector, &norm_bias));
  const Tensor loss = ops::CrossEntropy(x, ids);
  EXPECT_THAT(ToDoubles(loss), ElementsAre(0));
  ASSERT_THAT(tape.Backward({loss}, {Make({}, {1})}), IsOk());
  for (const GradientPlace* place : {&w, &b, &norm, &norm_bias, &table, &positions}) {
    EXPECT_EQ(place->contributions(), 1);
    EXPECT_THAT(place->Values(), Each(0.0));
  }
}

TEST_F(OpsValues, ALinearOfNoColumnsGivesItsInputNoGradient) {
  GradientPlace place(*backend_, {2, 3});
  Tape tape(*backend_);
  const Tensor x = Make({2, 3}, {1, 2, 3, 4, 5, 6}), w = Make({3, 0}, {});
  const Tensor y = ops::Linear(tape.Watch(x, &place), w, Tensor());
  EXPECT_EQ(y.shape(), (Shape{2, 0}));
  ASSERT_THAT(tape.Backward({y}, {Make({2, 0}, {})}), IsOk());
  EXPECT_THAT(place.Values(), Each(0.0));
  EXPECT_THAT(ToDoubles(ops::Linear(Make({2, 0}, {}), Make({0, 2}, {}), Make({2}, {5, 6}))),
              ElementsAre(5, 6, 5, 6));
}

}  // namespace
}  // namespace armature
