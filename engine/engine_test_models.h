// Small models whose values are known by heart, for the engine's tests.
#ifndef ARMATURE_ENGINE_ENGINE_TEST_MODELS_H_
#define ARMATURE_ENGINE_ENGINE_TEST_MODELS_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "armature/data/batch.h"
#include "armature/layers/block.h"
#include "armature/models/gpt2.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/tape.h"

namespace armature {

// y = w x with w = 1 for each entry of "x" [samples, 1]; the loss of a sample is y, or y^2 / 2.
class ScaleBlock : public Block {
 public:
  ScaleBlock(ModuleBuilder builder, bool squared)
      : w_(builder.Parameter("w", {1, 1}, Initializer::Constant(1))), squared_(squared) {}
  Activations Forward(Context& context, const Activations&) const override {
    const Tensor x = context.Input("x");
    const Tensor w = context.Use(w_).Reshape({1});
    // w for each sample, by adding it to zeros.
    const Tensor y = ops::Multiply(ops::AddBroadcast(ops::Scale(x, 0), w), x);
    return {ops::Sum(squared_ ? ops::Scale(ops::Multiply(y, y), 0.5) : y)};
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  const ParameterId w_;
  const bool squared_;
};

inline Model ScaleModel(bool squared) {
  Model model;
  model.name = "scale";
  model.blocks.push_back([squared](ModuleBuilder builder) -> absl::StatusOr<std::unique_ptr<Block>> {
    return std::make_unique<ScaleBlock>(builder, squared);
  });
  model.inputs = {InputSpec{"x", DType::kF32}};
  model.losses = {LossTerm{"loss", ""}};
  return model;
}

inline Batch ScaleBatch(const std::vector<float>& x) {
  Batch batch;
  batch.fields.push_back({"x", *Array::FromValues<float>({static_cast<int64_t>(x.size()), 1}, x)});
  return batch;
}

// Lets its input through, and calls `hook` on the way forward and on the way back. An error fails the pass.
class HookBlock : public Block {
 public:
  enum class Pass { kForward, kBackward };
  using Hook = std::function<absl::Status(Pass)>;

  explicit HookBlock(Hook hook) : hook_(std::move(hook)) {}
  Activations Forward(Context& context, const Activations& in) const override {
    const absl::Status status = hook_(Pass::kForward);
    if (!status.ok()) return {Tensor::Failed(status)};
    Activations out = {in[0].Detach()};
    if (context.tape() != nullptr) {
      context.tape()->Record(std::make_unique<Recorded>(hook_), in, absl::MakeSpan(out));
    }
    return out;
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  class Recorded : public Function {
   public:
    explicit Recorded(Hook hook) : hook_(std::move(hook)) {}
    absl::string_view name() const override { return "Hook"; }
    void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
      sink.Fail(hook_(Pass::kBackward));
      sink.Add(0, grads_out[0]);
    }

   private:
    const Hook hook_;
  };

  const Hook hook_;
};

// Lets its input through, and multiplies the gradient by a factor on the way back.
class ScaleGradientBlock : public Block {
 public:
  // Of the samples [first, first + samples) of the step's batch.
  using Factor = std::function<double(int64_t first, int64_t samples)>;

  explicit ScaleGradientBlock(Factor factor) : factor_(std::move(factor)) {}
  Activations Forward(Context& context, const Activations& in) const override {
    Activations out = {in[0].Detach()};
    if (context.tape() != nullptr) {
      const double factor = factor_(context.batch().first_sample, context.batch().samples);
      context.tape()->Record(std::make_unique<Recorded>(factor), in, absl::MakeSpan(out));
    }
    return out;
  }
  BlockCost Cost(int64_t, int64_t) const override { return {}; }

 private:
  class Recorded : public Function {
   public:
    explicit Recorded(double factor) : factor_(factor) {}
    absl::string_view name() const override { return "ScaleGradient"; }
    void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
      sink.Add(0, factor_ == 1 ? grads_out[0] : ops::Scale(grads_out[0], static_cast<float>(factor_)));
    }

   private:
    const double factor_;
  };

  const Factor factor_;
};

// `model` with a ScaleGradientBlock before block `block`.
inline absl::StatusOr<Model> WithGradientFactor(absl::StatusOr<Model> model, int block,
                                                ScaleGradientBlock::Factor factor) {
  if (!model.ok()) return model;
  model->blocks.insert(model->blocks.begin() + block,
                       [factor](ModuleBuilder) -> absl::StatusOr<std::unique_ptr<Block>> {
                         return std::make_unique<ScaleGradientBlock>(factor);
                       });
  return model;
}

// `model` with a HookBlock before block `block`.
inline absl::StatusOr<Model> WithHook(absl::StatusOr<Model> model, int block, HookBlock::Hook hook) {
  if (!model.ok()) return model;
  model->blocks.insert(model->blocks.begin() + block,
                       [hook](ModuleBuilder) -> absl::StatusOr<std::unique_ptr<Block>> {
                         return std::make_unique<HookBlock>(hook);
                       });
  return model;
}

// A GPT-2 of some thousand parameters.
inline Gpt2Config TinyGpt2(double dropout = 0) {
  Gpt2Config config;
  config.vocabulary = 32;
  config.max_positions = 8;
  config.hidden = 16;
  config.layers = 2;
  config.heads = 2;
  config.dropout = dropout;
  return config;
}

inline Batch Gpt2Batch(int64_t samples, int32_t seed, bool with_targets = true) {
  std::vector<int32_t> tokens, targets;
  for (int64_t i = 0; i < samples * 8; ++i) {
    tokens.push_back(static_cast<int32_t>((i * 7 + seed * 13) % 32));
    targets.push_back(static_cast<int32_t>((i * 5 + seed) % 32));
  }
  Batch batch;
  batch.fields.push_back({"tokens", *Array::FromValues<int32_t>({samples, 8}, tokens)});
  if (with_targets) batch.fields.push_back({"targets", *Array::FromValues<int32_t>({samples, 8}, targets)});
  return batch;
}

}  // namespace armature

#endif  // ARMATURE_ENGINE_ENGINE_TEST_MODELS_H_
