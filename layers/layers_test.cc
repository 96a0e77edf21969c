// Every layer's parameters, by name and shape, what it computes from them, and what it refuses.
#include <memory>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/layers/attention.h"
#include "armature/layers/context.h"
#include "armature/layers/embedding.h"
#include "armature/layers/linear.h"
#include "armature/layers/mlp.h"
#include "armature/layers/module_builder.h"
#include "armature/layers/norm.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/layers/vocabulary_head.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/attention.h"
#include "armature/tensor/ops/linear.h"

namespace armature {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

class LayersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend());
    shared_.registry = &registry_;
  }
  ModuleBuilder Builder() { return ModuleBuilder(shared_); }
  // "name [shape]" of each declared parameter.
  std::vector<std::string> Declared() const {
    std::vector<std::string> declared;
    for (const ParameterSpec& spec : registry_.specs())
      declared.push_back(spec.name + " " + spec.global_shape.ToString());
    return declared;
  }
  // To be called once the layers are built.
  Context MakeContext(Tape* tape = nullptr) {
    if (parameters_ == nullptr) parameters_ = std::make_unique<TestParameters>(*backend_, registry_);
    Context::Options options;
    options.parameters = parameters_.get();
    options.batch = &batch_;
    options.tape = tape;
    return Context(*backend_, options);
  }
  Tensor Make(const Shape& shape, const std::vector<double>& values) {
    return FromDoubles(*backend_, shape, values);
  }
  Tensor Ids(const Shape& shape, const std::vector<int32_t>& ids) {
    return Tensor::FromHost<int32_t>(*backend_, shape, ids, DType::kI32);
  }

  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  ModuleBuilder::Shared shared_;
  MicroBatch batch_;
  std::unique_ptr<TestParameters> parameters_;
};

TEST_F(LayersTest, LinearStoresItsWeightInOut) {
  LinearOptions options;
  options.in = 2;
  options.out = 3;
  const Linear layer(Builder().Scope("a"), options);
  options.bias = false;
  options.activation = Activation::kRelu;
  const Linear plain(Builder().Scope("b"), options);
  EXPECT_THAT(Declared(), ElementsAre("a.weight [2, 3]", "a.bias [3]", "b.weight [2, 3]"));
  Context context = MakeContext();
  EXPECT_THAT(parameters_->Values("a.bias"), Each(0.0));
  parameters_->Set("a.weight", {1, 2, 3, 4, 5, 6});
  parameters_->Set("a.bias", {10, 20, 30});
  parameters_->Set("b.weight", {1, -2, 3, 4, -5, 6});
  EXPECT_THAT(ToDoubles(layer(context, Make({1, 2}, {1, 2}))), ElementsAre(19, 32, 45));
  EXPECT_THAT(ToDoubles(plain(context, Make({1, 2}, {1, 2}))), ElementsAre(9, 0, 15));
}

TEST_F(LayersTest, MlpIsFourTimesAsWideInside) {
  MlpOptions options;
  options.hidden = 3;
  const Mlp wide(Builder().Scope("mlp"), options);
  options.inner = 5;
  options.up_name = "up";
  options.down_name = "down";
  const Mlp named(Builder(), options);
  EXPECT_THAT(Declared(), ElementsAre("mlp.c_fc.weight [3, 12]", "mlp.c_fc.bias [12]",
                                      "mlp.c_proj.weight [12, 3]", "mlp.c_proj.bias [3]", "up.weight [3, 5]",
                                      "up.bias [5]", "down.weight [5, 3]", "down.bias [3]"));
  Context context = MakeContext();
  EXPECT_EQ(wide(context, Make({2, 3}, {1, 2, 3, 4, 5, 6})).shape(), (Shape{2, 3}));
  // No activation after the second linear: its bias alone comes through.
  parameters_->Set("mlp.c_proj.weight", std::vector<double>(36, 0));
  parameters_->Set("mlp.c_proj.bias", {-1, -2, -3});
  EXPECT_THAT(ToDoubles(wide(context, Make({1, 3}, {1, 2, 3}))), ElementsAre(-1, -2, -3));
}

TEST_F(LayersTest, LayerNormBeginsAsTheIdentityOfNormalisedRows) {
  const LayerNorm layer(Builder().Scope("ln"), 4);
  EXPECT_THAT(Declared(), ElementsAre("ln.weight [4]", "ln.bias [4]"));
  Context context = MakeContext();
  EXPECT_THAT(ToDoubles(layer(context, Make({1, 4}, {0, 2, 4, 6}))),
              Pointwise(DoubleNear(1e-5), {-1.3416395, -0.4472131, 0.4472131, 1.3416395}));
}

TEST_F(LayersTest, EmbeddingAndPositions) {
  const Embedding tokens(Builder().Scope("wte"), 4, 2);
  const LearnedPositions positions(Builder().Scope("wpe"), 3, 2);
  EXPECT_THAT(Declared(), ElementsAre("wte.weight [4, 2]", "wpe.weight [3, 2]"));
  Context context = MakeContext();
  parameters_->Set("wte.weight", {1, 2, 3, 4, 5, 6, 7, 8});
  parameters_->Set("wpe.weight", {10, 20, 30, 40, 50, 60});
  const Tensor x = tokens(context, Ids({2, 2}, {3, 0, 1, 1}));
  EXPECT_THAT(ToDoubles(positions.AddTo(context, x)), ElementsAre(17, 28, 31, 42, 13, 24, 33, 44));
  EXPECT_EQ(positions.AddTo(context, tokens(context, Ids({1, 3}, {0, 1, 2}))).shape(), (Shape{1, 3, 2}));
}

TEST_F(LayersTest, TooManyPositionsAreAnErrorWithBothNumbers) {
  const LearnedPositions positions(Builder().Scope("wpe"), 3, 2);
  Context context = MakeContext();
  EXPECT_THAT(positions.AddTo(context, Make({1, 4, 2}, std::vector<double>(8, 0))).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 positions; the model has 3")));
  EXPECT_THAT(positions.AddTo(context, Tensor::Failed(absl::DataLossError("x"))).status(),
              StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(LayersTest, PositionsNeedASequence) {
  const LearnedPositions positions(Builder().Scope("wpe"), 3, 2);
  Context context = MakeContext();
  EXPECT_THAT(positions.AddTo(context, Make({2}, {1, 2})).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2]")));
}

// A parameter that is used twice gets the sum of both, once.
TEST_F(LayersTest, ATiedTableGetsTheSumOfBothUses) {
  const Embedding tokens(Builder().Scope("wte"), 3, 2);
  VocabularyHeadOptions options;
  options.vocabulary = 3;
  options.hidden = 2;
  options.tied_to = "wte.weight";
  const VocabularyHead head(Builder(), options);
  EXPECT_THAT(Declared(), ElementsAre("wte.weight [3, 2]"));
  Tape tape(*backend_);
  Context context = MakeContext(&tape);
  parameters_->Set("wte.weight", {1, 2, 3, 4, 5, 6});
  const Tensor logits = head(context, tokens(context, Ids({1}, {1})));
  EXPECT_THAT(ToDoubles(logits), ElementsAre(11, 25, 39));
  ASSERT_THAT(tape.Backward({logits}, {Make({1, 3}, {1, 0, 10})}), IsOk());
  // The head's part is seed^T x: rows (3, 4), 0 and (30, 40); the embedding's is seed w = (51, 62), into
  // row 1.
  EXPECT_THAT(parameters_->Gradient("wte.weight"), ElementsAre(3, 4, 51, 62, 30, 40));
}

TEST_F(LayersTest, SelfAttentionIsOneProjectionOfQKAndV) {
  SelfAttentionOptions options;
  options.hidden = 4;
  options.heads = 2;
  const SelfAttention layer(Builder().Scope("attn"), options);
  ASSERT_THAT(shared_.status, IsOk());
  EXPECT_THAT(Declared(), ElementsAre("attn.c_attn.weight [4, 12]", "attn.c_attn.bias [12]",
                                      "attn.c_proj.weight [4, 4]", "attn.c_proj.bias [4]"));
  Context context = MakeContext();
  const Tensor x = Make({1, 3, 4}, {1, 0, -1, 2, 3, 1, 0, -2, 1, 1, 2, 2});
  // By hand: columns [q | k | v] of the projection, through attention of separate tensors.
  std::vector<double> w = parameters_->Values("attn.c_attn.weight");
  std::vector<Tensor> qkv;
  for (int part = 0; part < 3; ++part) {
    std::vector<double> columns;
    for (int row = 0; row < 4; ++row)
      columns.insert(columns.end(), w.begin() + row * 12 + part * 4, w.begin() + row * 12 + part * 4 + 4);
    qkv.push_back(ops::Linear(x, Make({4, 4}, columns), Tensor()).Reshape({1, 3, 2, 2}));
  }
  ops::AttentionOptions attention;
  attention.heads = 2;
  attention.causal = true;
  const Tensor expected = ops::Linear(ops::Attention(qkv[0], qkv[1], qkv[2], attention).Reshape({1, 3, 4}),
                                      Make({4, 4}, parameters_->Values("attn.c_proj.weight")), Tensor());
  EXPECT_THAT(ToDoubles(layer(context, x)), Pointwise(DoubleNear(1e-8), ToDoubles(expected)));
}

TEST_F(LayersTest, HeadsThatDontDivideHiddenFailTheBuild) {
  SelfAttentionOptions options;
  options.hidden = 10;
  for (int64_t heads : {0, -1, 3}) {
    shared_.status = absl::OkStatus();
    options.heads = heads;
    const SelfAttention layer(Builder().Scope("attn" + std::to_string(heads)), options);
    EXPECT_THAT(shared_.status,
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("hidden 10 is not divisible by")));
  }
}

TEST_F(LayersTest, AFieldThatTheBatchLacksIsNamed) {
  batch_.fields.emplace_back("tokens", Ids({1}, {0}));
  Context context = MakeContext();
  EXPECT_TRUE(context.HasInput("tokens"));
  EXPECT_TRUE(context.Input("tokens").ok());
  EXPECT_FALSE(context.HasInput("targets"));
  EXPECT_THAT(context.Input("targets").status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("\"targets\"")));
}

}  // namespace
}  // namespace armature
