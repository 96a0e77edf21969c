#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/data/byte_tokenizer.h"
#include "armature/engine/engine.h"
#include "armature/tensor/random.h"
#include "armature/tools/commands.h"
#include "armature/tools/training_run.h"

namespace armature {
namespace {

absl::Status Check(const SampleCommand& command) {
  if (command.length < 1) return absl::InvalidArgumentError("--length must be at least 1");
  if (!(command.temperature >= 0)) return absl::InvalidArgumentError("--temperature must not be negative");
  if (command.top_k < 0) return absl::InvalidArgumentError("--top-k must not be negative");
  if (command.prompt.empty()) return absl::InvalidArgumentError("--prompt must not be empty");
  return absl::OkStatus();
}

// Draws a token from softmax(logits / temperature), by the uniform number in [0, 1).
int32_t Draw(absl::Span<const float> logits, const SampleCommand& command, double uniform) {
  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto likelier = [&](int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
  };
  const size_t kept = command.top_k > 0 ? std::min<size_t>(command.top_k, order.size()) : order.size();
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), likelier);
  if (command.temperature == 0) return order[0];
  std::vector<double> weights;
  for (size_t i = 0; i < kept; ++i) {
    weights.push_back(std::exp((logits[order[i]] - logits[order[0]]) / command.temperature));
  }
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (size_t i = 0; i < kept; ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order[kept - 1];
}

// The logits of the token after `tokens`, of which the model sees the last `window`.
absl::StatusOr<std::vector<float>> NextLogits(Engine& engine, const std::vector<int32_t>& tokens,
                                              int64_t window) {
  const int64_t length = std::min<int64_t>(window, static_cast<int64_t>(tokens.size()));
  Batch batch;
  ARMATURE_ASSIGN_OR_RETURN(
      Array array, Array::FromValues<int32_t>({1, length}, absl::MakeConstSpan(tokens).last(length)));
  batch.fields.push_back({"tokens", std::move(array)});
  ARMATURE_ASSIGN_OR_RETURN(const Array logits, engine.Predict(batch));
  const int64_t vocabulary = logits.shape().dim(-1);
  const absl::Span<const float> last = logits.values<float>().last(vocabulary);
  return std::vector<float>(last.begin(), last.end());
}

}  // namespace

absl::Status Run(const SampleCommand& command, FileSystem& files) {
  ARMATURE_RETURN_IF_ERROR(Check(command));
  ARMATURE_ASSIGN_OR_RETURN(TrainConfig config,
                            LoadTrainConfig(files, command.config_path, command.assignments));
  if (config.engine().checkpoint().directory().empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(command.config_path, ": engine.checkpoint.directory is not set"));
  }
  config.mutable_engine()->mutable_checkpoint()->set_read_only(true);
  config.mutable_engine()->mutable_checkpoint()->set_every_steps(0);
  ARMATURE_ASSIGN_OR_RETURN(Model model, MakeModel(config));
  Environment environment;
  environment.files = &files;
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine,
                            Engine::Create(config.engine(), std::move(model), environment));
  ARMATURE_RETURN_IF_ERROR(engine->Restore().status());
  const ByteTokenizer tokenizer;
  ARMATURE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.Encode(command.prompt));
  const int64_t window =
      config.data().sequence_length() > 0 ? config.data().sequence_length() : config.gpt2().max_positions();
  const RandomKey key = MakeRandomKey(command.seed, RandomPurpose::kSampling, 0, 0);
  std::vector<int32_t> drawn;
  for (int64_t i = 0; i < command.length; ++i) {
    ARMATURE_ASSIGN_OR_RETURN(const std::vector<float> logits, NextLogits(*engine, tokens, window));
    tokens.push_back(Draw(logits, command, UniformFloat(RandomBits(key, 0, i))));
    drawn.push_back(tokens.back());
  }
  ARMATURE_ASSIGN_OR_RETURN(const std::string text, tokenizer.Decode(drawn));
  std::cout << command.prompt << text << std::endl;
  return absl::OkStatus();
}

}  // namespace armature
