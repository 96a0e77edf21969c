#include "armature/models/gpt2.h"

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

struct Built {
  ParameterRegistry registry;
  std::vector<std::unique_ptr<Block>> blocks;
};

absl::StatusOr<std::unique_ptr<Built>> Build(const Gpt2Config& config) {
  absl::StatusOr<Model> model = MakeGpt2(config);
  if (!model.ok()) return model.status();
  auto built = std::make_unique<Built>();
  for (size_t i = 0; i < model->blocks.size(); ++i) {
    ModuleBuilder::Shared shared;
    shared.registry = &built->registry;
    shared.block = static_cast<int>(i);
    absl::StatusOr<std::unique_ptr<Block>> block = model->blocks[i](ModuleBuilder(shared));
    if (!block.ok()) return block.status();
    if (!shared.status.ok()) return shared.status;
    built->blocks.push_back(*std::move(block));
  }
  return built;
}

// Weights made on the spot; gradients are thrown away.
class InitialWeights : public ParameterSource, public GradientTarget {
 public:
  InitialWeights(Backend& backend, const ParameterRegistry& registry)
      : backend_(backend), registry_(registry) {}
  Tensor Borrow(ParameterId id, Tape* tape) override {
    Tensor& weight = weights_[id.index];
    if (!weight.valid()) {
      const ParameterSpec& spec = registry_.specs()[id.index];
      weight = Tensor::Empty(backend_, spec.global_shape, DType::kF32, MemoryCategory::kParameters);
      EXPECT_THAT(Initialize(backend_, spec, 1, 0, weight.view()), IsOk());
    }
    return tape == nullptr ? weight : tape->Watch(weight, this);
  }
  GradientSlot Slot() override { return {}; }
  void Contributed() override {}

 private:
  Backend& backend_;
  const ParameterRegistry& registry_;
  std::map<int, Tensor> weights_;
};

Gpt2Config Tiny(double dropout = 0) {
  Gpt2Config config;
  config.vocabulary = 40;
  config.max_positions = 12;
  config.hidden = 24;
  config.layers = 2;
  config.heads = 3;
  config.dropout = dropout;
  return config;
}

TEST(Gpt2, PresetsHaveTheParametersOfThePublicModels) {
  const std::pair<Gpt2Config, int64_t> presets[] = {
      {Gpt2Small(), 124439808}, {Gpt2Medium(), 354823168}, {Gpt2Large(), 774030080}, {Gpt2Xl(), 1557611200}};
  for (const auto& [config, parameters] : presets) {
    ASSERT_OK_AND_ASSIGN(const auto built, Build(config));
    EXPECT_EQ(built->registry.num_elements(), parameters);
    int64_t in_costs = 0;
    for (const auto& block : built->blocks) in_costs += block->Cost(1, 1).parameters;
    EXPECT_EQ(in_costs, parameters);
  }
}

TEST(Gpt2, ParametersHaveThePublicNamesAndLayout) {
  ASSERT_OK_AND_ASSIGN(const auto built, Build(Tiny()));
  const std::pair<const char*, Shape> expected[] = {{"wte.weight", {40, 24}},
                                                    {"wpe.weight", {12, 24}},
                                                    {"h.0.ln_1.weight", {24}},
                                                    {"h.0.attn.c_attn.weight", {24, 72}},
                                                    {"h.0.attn.c_proj.bias", {24}},
                                                    {"h.1.mlp.c_fc.weight", {24, 96}},
                                                    {"h.1.mlp.c_proj.weight", {96, 24}},
                                                    {"ln_f.bias", {24}}};
  for (const auto& [name, shape] : expected) {
    ASSERT_OK_AND_ASSIGN(const ParameterId id, built->registry.Find(name));
    EXPECT_EQ(built->registry.specs()[id.index].global_shape, shape) << name;
  }
  EXPECT_EQ(built->registry.specs().size(), 2u + 2 * 12 + 2);  // the head is tied to wte
}

// What the planner believes against what the tape keeps, block by block.
TEST(Gpt2, CostsSayWhatABlockReallySaves) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, MakeCpuBackend());
  ASSERT_OK_AND_ASSIGN(const auto built, Build(Tiny(0.1)));
  InitialWeights weights(*backend, built->registry);
  const int64_t samples = 3, positions = 10;
  MicroBatch batch;
  batch.samples = samples;
  const std::vector<int32_t> ids(samples * positions, 5);
  for (const char* name : {"tokens", "targets"}) {
    batch.fields.emplace_back(name,
                              Tensor::FromHost<int32_t>(*backend, {samples, positions}, ids, DType::kI32));
  }
  Activations activations;
  for (const auto& block : built->blocks) {
    Tape tape(*backend);
    Context::Options options;
    options.parameters = &weights;
    options.batch = &batch;
    options.tape = &tape;
    options.training = true;
    Context context(*backend, options);
    Activations in;
    for (const Tensor& tensor : activations) in.push_back(tensor.Detach());
    // On the tape, but no leaf, as after the block before: a leaf's memory does not count as saved.
    activations = block->Forward(context, in);
    for (const Tensor& tensor : activations) ASSERT_THAT(tensor.status(), IsOk());
    EXPECT_EQ(tape.saved_bytes(), block->Cost(samples, positions).saved_bytes);
    for (Tensor& tensor : activations) tensor = tensor.Detach();
  }
}

TEST(Gpt2, BadSizesAreNamed) {
  const auto fails = [](void (*change)(Gpt2Config&)) {
    Gpt2Config config = Tiny();
    change(config);
    return MakeGpt2(config).status();
  };
  EXPECT_THAT(fails([](Gpt2Config& c) { c.heads = 5; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt2.hidden 24 is not divisible")));
  EXPECT_THAT(fails([](Gpt2Config& c) { c.layers = 0; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt2.layers")));
  EXPECT_THAT(fails([](Gpt2Config& c) { c.vocabulary = -1; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt2.vocabulary")));
  EXPECT_THAT(fails([](Gpt2Config& c) { c.dropout = 1; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt2.dropout")));
  EXPECT_THAT(fails([](Gpt2Config& c) { c.label_smoothing = NAN; }),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("gpt2.label_smoothing")));
}

}  // namespace
}  // namespace armature
