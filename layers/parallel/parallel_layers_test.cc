// Every layer that ranks of the tensor axis share out, against the same layer on one rank: results, gradients
// and initial weights, with and without sequence parallelism.
#include <memory>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/on_ranks.h"
#include "armature/layers/attention.h"
#include "armature/layers/dropout.h"
#include "armature/layers/embedding.h"
#include "armature/layers/linear.h"
#include "armature/layers/mlp.h"
#include "armature/layers/norm.h"
#include "armature/layers/parallel/collectives.h"
#include "armature/layers/parallel/parallel_linear.h"
#include "armature/layers/testing/tensor_ranks.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/layers/vocabulary_head.h"
#include "armature/tensor/cpu/cpu_backend.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kHidden = 8;

// A layer from the stream to the stream, whose scope is "layer".
template <typename Layer, typename... Options>
TensorBuild Build(const Options&... options) {
  return [=](ModuleBuilder::Shared& shared) -> TensorForward {
    const auto layer = std::make_shared<Layer>(ModuleBuilder(shared).Scope("layer"), options...);
    return [layer](Context& context, const Tensor& x) { return (*layer)(context, x); };
  };
}

TensorRun OnStream() {
  TensorRun run;
  run.samples = 2;
  run.x = {2, 4, kHidden};
  return run;
}

// `run` at tensor sizes 2 and 4, with and without sequence parallelism, against size 1.
void ExpectEqualAtEverySize(TensorRun run, const TensorBuild& build, double tolerance = 1e-12) {
  run.size = 1;
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

LinearOptions Options(int64_t in, int64_t out, Activation activation = Activation::kNone) {
  LinearOptions options;
  options.in = in;
  options.out = out;
  options.activation = activation;
  options.init = Initializer::Normal(0.5);
  return options;
}

// Feeds the layer this rank's columns of the stream.
TensorForward AfterColumns(std::shared_ptr<RowParallelLinear> row) {
  return [row](Context& context, const Tensor& x) {
    const TensorGroup& group = context.tensor();
    const Tensor whole = group.sequence_parallel ? GatherFromTensorAxis(group, x, 1) : x;
    return (*row)(context, ScatterToTensorAxis(group, whole));
  };
}

TEST(ColumnParallelLinear, GatheredEqualsLinear) {
  const LinearOptions options = Options(kHidden, 12, Activation::kGeluTanh);
  const TensorBuild build = [&](ModuleBuilder::Shared& shared) -> TensorForward {
    const auto layer = std::make_shared<ColumnParallelLinear>(ModuleBuilder(shared).Scope("up"), options);
    return [layer](Context& context, const Tensor& x) {
      const TensorGroup& group = context.tensor();
      const Tensor whole = GatherFromTensorAxis(group, (*layer)(context, x));
      return group.sequence_parallel ? ScatterToTensorAxis(group, whole, 1) : whole;
    };
  };
  ExpectEqualAtEverySize(OnStream(), build);
  const TensorBuild plain = [&](ModuleBuilder::Shared& shared) -> TensorForward {
    const auto layer = std::make_shared<Linear>(ModuleBuilder(shared).Scope("up"), options);
    return [layer](Context& context, const Tensor& x) { return (*layer)(context, x); };
  };
  ExpectEqualAtEverySize(OnStream(), plain);
  ExpectNear(RunOnTensorRanks(OnStream(), build), RunOnTensorRanks(OnStream(), plain), 0);
}

TEST(RowParallelLinear, EqualsLinear) {
  ExpectEqualAtEverySize(OnStream(), [](ModuleBuilder::Shared& shared) {
    return AfterColumns(
        std::make_shared<RowParallelLinear>(ModuleBuilder(shared).Scope("down"), Options(kHidden, 5)));
  });
}

// x [1, 2, 3, 4], weights 1, bias 100, dY 1: y is 110 and not 210, and the bias's gradient 1 and not .5.
TEST(RowParallelLinear, AddsItsBiasOnce) {
  for (int size : {1, 2, 4}) {
    ASSERT_OK_AND_ASSIGN(const auto ranks, comm::MakeInprocGroup(size));
    const auto body = [&](comm::Communicator& comm) {
      const auto backend = *MakeCpuBackend();
      ParameterRegistry registry;
      ModuleBuilder::Shared shared;
      shared.registry = &registry;
      shared.tensor_rank = comm.rank();
      shared.tensor_size = size;
      LinearOptions options = Options(4, 1);
      options.init = Initializer::Constant(1);
      const RowParallelLinear row{ModuleBuilder(shared), options};
      TestParameters parameters(*backend, registry);
      parameters.Set("bias", {100});
      Tape tape(*backend);
      Context::Options context_options;
      context_options.parameters = &parameters;
      context_options.tape = &tape;
      context_options.tensor.communicator = &comm;
      Context context(*backend, context_options);
      const Tensor x = FromDoubles(*backend, {1, 4}, {1, 2, 3, 4});
      const Tensor y = row(context, ScatterToTensorAxis(context.tensor(), x));
      EXPECT_THAT(ToDoubles(y.Detach()), ElementsAre(110));
      const absl::Status done = tape.Backward({y}, {FromDoubles(*backend, {1, 1}, {1})});
      EXPECT_THAT(parameters.Gradient("bias"), ElementsAre(1));
      return done;
    };
    EXPECT_THAT(comm::OnRanks(ranks, body), Each(IsOk()));
  }
}

TEST(RowParallelLinear, HasNoActivation) {
  ParameterRegistry registry;
  ModuleBuilder::Shared shared;
  shared.registry = &registry;
  const RowParallelLinear layer(ModuleBuilder(shared), Options(4, 4, Activation::kRelu));
  EXPECT_THAT(shared.status, StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("activation")));
}

TEST(MlpOnTensorRanks, EqualsOneRank) {
  MlpOptions options;
  options.hidden = kHidden;
  options.init = options.projection_init = Initializer::Normal(0.5);
  ExpectEqualAtEverySize(OnStream(), Build<Mlp>(options));
}

SelfAttentionOptions Attention(int64_t heads, double dropout = 0) {
  SelfAttentionOptions options;
  options.hidden = kHidden;
  options.heads = heads;
  options.dropout = dropout;
  options.init = options.projection_init = Initializer::Normal(0.5);
  return options;
}

TEST(SelfAttentionOnTensorRanks, EqualsOneRank) {
  ExpectEqualAtEverySize(OnStream(), Build<SelfAttention>(Attention(4)));
}

TEST(SelfAttentionOnTensorRanks, DropsTheSameWeightsOnEveryLayout) {
  TensorRun run = OnStream();
  run.training = true;
  ExpectEqualAtEverySize(run, Build<SelfAttention>(Attention(4, 0.5)));
}

// The fused projection of 4 heads of 2 columns: which of q0 .. q3, k0 .. k3, v0 .. v3 a rank has.
TEST(SelfAttentionOnTensorRanks, ARankHasWholeHeadsOfQKAndV) {
  const auto heads = [](int rank, int size) {
    ParameterRegistry registry;
    ModuleBuilder::Shared shared;
    shared.registry = &registry;
    shared.tensor_rank = rank;
    shared.tensor_size = size;
    const SelfAttention layer(ModuleBuilder(shared), Attention(4));
    EXPECT_THAT(shared.status, IsOk());
    std::string labels;
    for (const ShardPiece& piece : registry.specs()[0].Pieces()) {
      for (int64_t column = 0; column < piece.global.shape.dim(1); column += 2) {
        const int64_t head = (piece.global.offset[1] + column) / 2;
        labels += std::string(labels.empty() ? "" : " ") + "qkv"[head / 4] + std::to_string(head % 4);
      }
    }
    return labels;
  };
  EXPECT_EQ(heads(0, 1), "q0 q1 q2 q3 k0 k1 k2 k3 v0 v1 v2 v3");
  EXPECT_EQ(heads(0, 2), "q0 q1 k0 k1 v0 v1");
  EXPECT_EQ(heads(1, 2), "q2 q3 k2 k3 v2 v3");
  EXPECT_EQ(heads(2, 4), "q2 k2 v2");
}

TEST(SelfAttentionOnTensorRanks, HeadsThatTheRanksDontDivideFailTheBuild) {
  ParameterRegistry registry;
  ModuleBuilder::Shared shared;
  shared.registry = &registry;
  shared.tensor_size = 4;
  const SelfAttention layer(ModuleBuilder(shared), Attention(2));
  EXPECT_THAT(shared.status, StatusIs(absl::StatusCode::kInvalidArgument,
                                      AllOf(HasSubstr("2 attention heads"), HasSubstr("tensor size 4"))));
}

TEST(MlpOnTensorRanks, AWidthThatTheRanksDontDivideFailsTheBuild) {
  ParameterRegistry registry;
  ModuleBuilder::Shared shared;
  shared.registry = &registry;
  shared.tensor_size = 4;
  MlpOptions options;
  options.hidden = 4;
  options.inner = 6;
  const Mlp layer(ModuleBuilder(shared), options);
  EXPECT_THAT(shared.status,
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("c_fc.weight"), HasSubstr("6"))));
}

TEST(LayerNormOnTensorRanks, EqualsOneRank) { ExpectEqualAtEverySize(OnStream(), Build<LayerNorm>(kHidden)); }

TEST(DropoutOnTensorRanks, MasksAreThoseOfOneRank) {
  TensorRun run = OnStream();
  run.training = true;
  const TensorBuild build = Build<Dropout>(0.5);
  ExpectEqualAtEverySize(run, build, 0);
  // Slices of one sequence have masks of their own.
  const std::vector<double> y =
      RunOnTensorRanks(run, [](ModuleBuilder::Shared& shared) -> TensorForward {
        const auto layer = std::make_shared<Dropout>(ModuleBuilder(shared), 0.5);
        return [layer](Context& context, const Tensor& x) { return (*layer)(context, x); };
      }).y;
  std::vector<bool> first, second;
  for (int i = 0; i < 2 * kHidden; ++i) {
    first.push_back(y[i] == 0);
    second.push_back(y[2 * kHidden + i] == 0);
  }
  EXPECT_NE(first, second);
}

TEST(DropoutOnTensorRanks, AVectorThatIsOnEveryRankHasOneMask) {
  TensorRun run;
  run.training = true;
  run.sequence_parallel = true;
  run.samples = 2;
  std::vector<std::vector<double>> results;
  for (int size : {1, 2}) {
    run.size = size;
    // The result is a vector, so that it counts as one that every rank has.
    results.push_back(RunOnTensorRanks(run, [](ModuleBuilder::Shared& shared) -> TensorForward {
                        const auto layer = std::make_shared<Dropout>(ModuleBuilder(shared), 0.5);
                        return [layer](Context& context, const Tensor&) {
                          const std::vector<double> ones(2 * kHidden, 1);
                          const Tensor pooled =
                              Tensor::FromHost<double>(context.backend(), {2, kHidden}, ones, DType::kF64);
                          return (*layer)(context, pooled).Reshape({2 * kHidden});
                        };
                      }).y);
  }
  EXPECT_EQ(results[0], results[1]);
}

// Vocabularies that the ranks divide, and that they don't: padding is nobody's.
TEST(VocabularyOnTensorRanks, EmbeddingPositionsHeadAndLossEqualOneRank) {
  for (int64_t vocabulary : {8, 7, 5}) {
    for (bool tied : {false, true}) {
      for (bool with_loss : {false, true}) {
        SCOPED_TRACE(testing::Message() << "vocabulary " << vocabulary << (tied ? ", tied" : "")
                                        << (with_loss ? ", loss" : ", predictions"));
        TensorRun run;
        run.samples = 2;
        run.fields = {{"tokens", {3, 0, 4, 1, 2, 2, 0, 4}}, {"targets", {0, 4, 1, -100, 2, 0, 4, 3}}};
        const TensorBuild build = [&](ModuleBuilder::Shared& shared) -> TensorForward {
          ModuleBuilder builder(shared);
          const Initializer init = Initializer::Normal(0.5);
          const auto tokens = std::make_shared<Embedding>(builder.Scope("wte"), vocabulary, kHidden, init);
          const auto places = std::make_shared<LearnedPositions>(builder.Scope("wpe"), 6, kHidden, init);
          VocabularyHeadOptions options;
          options.vocabulary = vocabulary;
          options.hidden = kHidden;
          options.tied_to = tied ? "wte.weight" : "";
          options.bias = !tied;
          options.init = init;
          const auto head = std::make_shared<VocabularyHead>(builder.Scope("head"), options);
          return [=](Context& context, const Tensor&) {
            const Tensor x = places->AddTo(context, (*tokens)(context, context.Input("tokens")));
            if (with_loss) return head->Loss(context, x, context.Input("targets"), 0.1);
            const Tensor logits = (*head)(context, x);
            return context.tensor().sequence_parallel ? ScatterToTensorAxis(context.tensor(), logits, 1)
                                                      : logits;
          };
        };
        ExpectEqualAtEverySize(run, build);
      }
    }
  }
}

TEST(LearnedPositionsOnTensorRanks, CountAllPositionsOfTheSequence) {
  TensorRun run = OnStream();
  run.size = 2;
  run.sequence_parallel = true;
  run.x = {1, 4, kHidden};
  std::vector<absl::Status> statuses(2);
  RunOnTensorRanks(run, [&](ModuleBuilder::Shared& shared) -> TensorForward {
    const auto places = std::make_shared<LearnedPositions>(ModuleBuilder(shared).Scope("wpe"), 3, kHidden);
    return [&statuses, places](Context& context, const Tensor& x) {
      statuses[context.tensor().rank()] = places->AddTo(context, x).status();
      return x;
    };
  });
  EXPECT_THAT(statuses,
              Each(StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("4 positions; the model has 3"))));
}

}  // namespace
}  // namespace armature
