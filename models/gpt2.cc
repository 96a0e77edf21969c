#include "armature/models/gpt2.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/layers/attention.h"
#include "armature/layers/dropout.h"
#include "armature/layers/embedding.h"
#include "armature/layers/mlp.h"
#include "armature/layers/norm.h"
#include "armature/layers/recompute.h"
#include "armature/layers/vocabulary_head.h"

namespace armature {
namespace {

constexpr char kTokenTable[] = "wte.weight";
constexpr int64_t kF32 = 4;

class EmbeddingBlock : public Block {
 public:
  EmbeddingBlock(ModuleBuilder builder, const Gpt2Config& config)
      : config_(config),
        tokens_(builder.Scope("wte"), config.vocabulary, config.hidden,
                Initializer::Normal(config.init_stddev)),
        positions_(builder.Scope("wpe"), config.max_positions, config.hidden,
                   Initializer::Normal(config.init_stddev)),
        dropout_(builder, config.dropout) {}

  Activations Forward(Context& context, const Activations&) const override {
    const Tensor tokens = tokens_(context, context.Input("tokens"));
    return {dropout_(context, positions_.AddTo(context, tokens))};
  }

  BlockCost Cost(int64_t samples, int64_t positions) const override {
    BlockCost cost;
    cost.parameters = (config_.vocabulary + config_.max_positions) * config_.hidden;
    cost.saved_bytes = samples * positions * kF32;  // the tokens
    return cost;
  }

 private:
  const Gpt2Config config_;
  const Embedding tokens_;
  const LearnedPositions positions_;
  const Dropout dropout_;
};

SelfAttentionOptions AttentionOptionsOf(const Gpt2Config& config) {
  SelfAttentionOptions options;
  options.hidden = config.hidden;
  options.heads = config.heads;
  options.dropout = config.dropout;
  options.init = Initializer::Normal(config.init_stddev);
  options.projection_init = Initializer::Normal(config.init_stddev / std::sqrt(2.0 * config.layers));
  return options;
}

MlpOptions MlpOptionsOf(const Gpt2Config& config) {
  MlpOptions options;
  options.hidden = config.hidden;
  options.init = Initializer::Normal(config.init_stddev);
  options.projection_init = Initializer::Normal(config.init_stddev / std::sqrt(2.0 * config.layers));
  return options;
}

// x + attention(norm(x)), then x + mlp(norm(x)).
class TransformerBlock : public Block {
 public:
  TransformerBlock(ModuleBuilder builder, const Gpt2Config& config)
      : config_(config),
        attention_norm_(builder.Scope("ln_1"), config.hidden, config.norm_eps),
        attention_(builder.Scope("attn"), AttentionOptionsOf(config)),
        attention_dropout_(builder, config.dropout),
        mlp_norm_(builder.Scope("ln_2"), config.hidden, config.norm_eps),
        mlp_(builder.Scope("mlp"), MlpOptionsOf(config)),
        mlp_dropout_(builder, config.dropout) {}

  Activations Forward(Context& context, const Activations& in) const override {
    Tensor x = in[0];
    x = attention_dropout_.AddTo(context, x,
                                 RunPart(context, "attention", x, [this](Context& inner, const Tensor& in) {
                                   return attention_(inner, attention_norm_(inner, in));
                                 }));
    x = mlp_dropout_.AddTo(context, x, RunPart(context, "mlp", x, [this](Context& inner, const Tensor& in) {
                             return mlp_(inner, mlp_norm_(inner, in));
                           }));
    return {x};
  }

  BlockCost Cost(int64_t samples, int64_t positions) const override {
    const int64_t rows = samples * positions, hidden = config_.hidden;
    BlockCost cost;
    cost.parameters = 12 * hidden * hidden + 13 * hidden;
    // Four linears of 12 hidden^2 weights, and the two products of attention, of which causality leaves half.
    cost.forward_flops = 2.0 * rows * 12 * hidden * hidden + 2.0 * rows * positions * hidden;
    // Inputs of the norms and linears, q k v, attention's result, and the MLP before and after its
    // activation: 2 + 2 + 3 + 1 + 4 + 4 of hidden, and statistics.
    cost.saved_bytes = rows * (16 * hidden + 4 + config_.heads) * kF32;
    return cost;
  }

 private:
  const Gpt2Config config_;
  const LayerNorm attention_norm_;
  const SelfAttention attention_;
  const Dropout attention_dropout_;
  const LayerNorm mlp_norm_;
  const Mlp mlp_;
  const Dropout mlp_dropout_;
};

VocabularyHeadOptions HeadOptionsOf(const Gpt2Config& config) {
  VocabularyHeadOptions options;
  options.vocabulary = config.vocabulary;
  options.hidden = config.hidden;
  options.tied_to = kTokenTable;
  options.init = Initializer::Normal(config.init_stddev);
  return options;
}

class HeadBlock : public Block {
 public:
  HeadBlock(ModuleBuilder builder, const Gpt2Config& config)
      : config_(config),
        norm_(builder.Scope("ln_f"), config.hidden, config.norm_eps),
        head_(builder, HeadOptionsOf(config)) {}

  Activations Forward(Context& context, const Activations& in) const override {
    const Tensor x = norm_(context, in[0]);
    if (!context.HasInput("targets")) return {head_(context, x)};
    return {head_.Loss(context, x, context.Input("targets"), config_.label_smoothing)};
  }

  BlockCost Cost(int64_t samples, int64_t positions) const override {
    const int64_t rows = samples * positions;
    BlockCost cost;
    cost.parameters = 2 * config_.hidden;  // the table is the embedding's
    cost.forward_flops = 2.0 * rows * config_.hidden * config_.vocabulary;
    // The norm's input and result, its statistics, the logits, the targets and the log of the sum of
    // exponentials.
    cost.saved_bytes = rows * (2 * config_.hidden + config_.vocabulary + 4) * kF32;
    return cost;
  }

 private:
  const Gpt2Config config_;
  const LayerNorm norm_;
  const VocabularyHead head_;
};

template <typename BlockType, typename... Scope>
BlockBuilder Builder(const Gpt2Config& config, const Scope&... scope) {
  return [config, scope...](ModuleBuilder builder) -> absl::StatusOr<std::unique_ptr<Block>> {
    if constexpr (sizeof...(scope) == 0) return std::make_unique<BlockType>(builder, config);
    return std::make_unique<BlockType>(builder.Scope(absl::StrCat(scope...)), config);
  };
}

absl::Status CheckPositive(absl::string_view field, int64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("gpt2.", field, " is ", value, ", must be at least 1"));
}

absl::Status Validate(const Gpt2Config& config) {
  ARMATURE_RETURN_IF_ERROR(CheckPositive("vocabulary", config.vocabulary));
  ARMATURE_RETURN_IF_ERROR(CheckPositive("max_positions", config.max_positions));
  ARMATURE_RETURN_IF_ERROR(CheckPositive("hidden", config.hidden));
  ARMATURE_RETURN_IF_ERROR(CheckPositive("layers", config.layers));
  ARMATURE_RETURN_IF_ERROR(CheckPositive("heads", config.heads));
  if (config.hidden % config.heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2.hidden ", config.hidden, " is not divisible by gpt2.heads ", config.heads));
  }
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2.dropout is ", config.dropout, ", must be in [0, 1)"));
  }
  if (!(config.label_smoothing >= 0 && config.label_smoothing < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2.label_smoothing is ", config.label_smoothing, ", must be in [0, 1)"));
  }
  if (!(config.norm_eps > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2.norm_eps is ", config.norm_eps, ", must be positive"));
  }
  if (!(config.init_stddev >= 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("gpt2.init_stddev is ", config.init_stddev, ", must not be negative"));
  }
  return absl::OkStatus();
}

Gpt2Config Size(int64_t hidden, int64_t layers, int64_t heads) {
  Gpt2Config config;
  config.hidden = hidden;
  config.layers = layers;
  config.heads = heads;
  return config;
}

}  // namespace

Gpt2Config Gpt2Small() { return Size(768, 12, 12); }
Gpt2Config Gpt2Medium() { return Size(1024, 24, 16); }
Gpt2Config Gpt2Large() { return Size(1280, 36, 20); }
Gpt2Config Gpt2Xl() { return Size(1600, 48, 25); }

absl::StatusOr<Model> MakeGpt2(const Gpt2Config& config) {
  ARMATURE_RETURN_IF_ERROR(Validate(config));
  Model model;
  model.name = "gpt2";
  model.blocks.push_back(Builder<EmbeddingBlock>(config));
  for (int64_t i = 0; i < config.layers; ++i)
    model.blocks.push_back(Builder<TransformerBlock>(config, "h.", i));
  model.blocks.push_back(Builder<HeadBlock>(config));
  InputSpec tokens;
  tokens.name = "tokens";
  tokens.limit = config.vocabulary;
  InputSpec targets = tokens;
  targets.name = "targets";
  targets.may_be_ignored = true;
  targets.only_for_loss = true;
  model.inputs = {tokens, targets};
  model.losses = {LossTerm{"loss", "targets"}};
  model.parts = {"attention", "mlp"};
  return model;
}

}  // namespace armature
