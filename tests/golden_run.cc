#include "armature/tests/golden_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "armature/base/posix_file_system.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/weights_file.h"
#include "armature/engine/engine.h"
#include "armature/models/gpt2.h"
#include "nlohmann/json.hpp"

namespace armature {
namespace {

using Json = nlohmann::json;

double RelativeError(double actual, double expected) {
  return std::abs(actual - expected) / std::abs(expected);
}

// ||a - b|| / ||b|| over the elements that `counts`.
double RelativeDistance(const float* a, const float* b, int64_t count,
                        const std::function<bool(int64_t)>& counts) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < count; ++i) {
    if (!counts(i)) continue;
    difference += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

// A key's bias has no gradient by mathematics, since softmax ignores it: what is there is rounding, which
// AdamW makes noise of. It is the middle third of a fused bias.
std::function<bool(int64_t)> Counted(absl::string_view name, int64_t count) {
  if (absl::EndsWith(name, "c_attn.bias"))
    return [count](int64_t i) { return i < count / 3 || i >= 2 * count / 3; };
  if (absl::EndsWith(name, ".key.bias")) return [](int64_t) { return false; };
  return [](int64_t) { return true; };
}

std::vector<float> Floats(const NamedArray& array) {
  std::vector<float> values(array.shape.num_elements());
  std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
  return values;
}

struct Reference {
  Json trace;
  NamedArrays weights, batches, step0, weights_after;
};

absl::StatusOr<Reference> Read(const std::string& directory) {
  PosixFileSystem files;
  Reference reference;
  ARMATURE_ASSIGN_OR_RETURN(const std::string text, files.Read(absl::StrCat(directory, "/trace.json")));
  reference.trace = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (reference.trace.is_discarded())
    return absl::DataLossError(absl::StrCat(directory, "/trace.json is not JSON"));
  const std::pair<const char*, NamedArrays*> parts[] = {{"weights", &reference.weights},
                                                        {"batches", &reference.batches},
                                                        {"step0", &reference.step0},
                                                        {"weights_after", &reference.weights_after}};
  for (const auto& [name, arrays] : parts) {
    ARMATURE_ASSIGN_OR_RETURN(*arrays,
                              ReadSafetensors(files, absl::StrCat(directory, "/", name, ".safetensors")));
  }
  return reference;
}

// Public names carry prefixes that our names leave out.
std::string OurName(absl::string_view name) {
  if (absl::StartsWith(name, "transformer.")) name.remove_prefix(strlen("transformer."));
  return std::string(name);
}

absl::StatusOr<Model> MakeModel(const Json& trace) {
  const Json& config = trace["config"];
  if (config.contains("intermediate") || !config.contains("positions")) {
    return absl::UnimplementedError("the golden's model is not built in this version: only GPT-2 is");
  }
  Gpt2Config gpt2;
  gpt2.vocabulary = config["vocab"];
  gpt2.max_positions = config["positions"];
  gpt2.layers = config["layers"];
  gpt2.hidden = config["hidden"];
  gpt2.heads = config["heads"];
  gpt2.dropout = 0;
  return MakeGpt2(gpt2);
}

absl::StatusOr<EngineConfig> MakeConfig(const Json& trace, const GoldenLayout& layout) {
  EngineConfig config;
  const Json& optimizer = trace["optimizer"];
  OptimizerConfig::AdamW& adamw = *config.mutable_optimizer()->mutable_adamw();
  adamw.set_beta1(optimizer["betas"][0]);
  adamw.set_beta2(optimizer["betas"][1]);
  adamw.set_eps(optimizer["eps"]);
  adamw.set_weight_decay(0.1);
  config.mutable_learning_rate()->set_peak(optimizer["lr"]);
  config.mutable_learning_rate()->set_warmup_steps(5);
  config.set_clip_norm(optimizer["clip_global_norm"]);
  config.set_microbatches(layout.microbatches);
  config.set_recompute(layout.recompute ? EngineConfig::FULL : EngineConfig::NONE);
  config.set_reproducible(layout.reproducible);
  ParallelConfig& parallel = *config.mutable_parallel();
  parallel.set_data(layout.data);
  parallel.set_tensor(layout.tensor);
  parallel.set_pipeline(layout.pipeline);
  parallel.set_sharding(layout.sharding);
  parallel.set_sequence_parallel(layout.sequence_parallel);
  if (!layout.schedule.empty()) {
    ParallelConfig::Schedule schedule;
    if (!ParallelConfig::Schedule_Parse(layout.schedule, &schedule)) {
      return absl::InvalidArgumentError(absl::StrCat("unknown schedule ", layout.schedule));
    }
    parallel.set_schedule(schedule);
  }
  return config;
}

// Step `step` of an i64 array [steps, samples, positions], as an i32 field.
absl::StatusOr<Batch::Field> Field(const Reference& reference, absl::string_view from, absl::string_view to,
                                   int64_t step) {
  ARMATURE_ASSIGN_OR_RETURN(const NamedArray all, reference.batches.Find(from));
  const Shape shape{all.shape.dim(1), all.shape.dim(2)};
  std::vector<int64_t> wide(shape.num_elements());
  std::memcpy(wide.data(), all.bytes.data() + step * wide.size() * sizeof(int64_t),
              wide.size() * sizeof(int64_t));
  const std::vector<int32_t> values(wide.begin(), wide.end());
  ARMATURE_ASSIGN_OR_RETURN(Array array, Array::FromValues<int32_t>(shape, values));
  return Batch::Field{std::string(to), std::move(array)};
}

absl::StatusOr<Batch> BatchOf(const Reference& reference, int64_t step, bool with_targets) {
  Batch batch;
  ARMATURE_ASSIGN_OR_RETURN(Batch::Field tokens, Field(reference, "ids", "tokens", step));
  batch.fields.push_back(std::move(tokens));
  if (with_targets) {
    ARMATURE_ASSIGN_OR_RETURN(Batch::Field targets, Field(reference, "labels", "targets", step));
    batch.fields.push_back(std::move(targets));
  }
  return batch;
}

void TransposeSquare(std::vector<float>& values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < i; ++j) std::swap(values[i * n + j], values[j * n + i]);
  }
}

absl::Status ImportWeights(Engine& engine, const Reference& reference, bool transpose_square_projections) {
  std::vector<std::vector<float>> values;
  std::vector<NamedBuffer> buffers;
  values.reserve(reference.weights.arrays().size());
  for (const NamedArray& array : reference.weights.arrays()) {
    values.push_back(Floats(array));
    if (transpose_square_projections && absl::EndsWith(array.name, "attn.c_proj.weight")) {
      TransposeSquare(values.back(), array.shape.dim(0));
    }
    NamedBuffer buffer;
    buffer.name = OurName(array.name);
    buffer.shape = array.shape;
    buffer.view.data = values.back().data();
    buffer.view.count = array.shape.num_elements();
    buffers.push_back(std::move(buffer));
  }
  return engine.ImportWeights(buffers);
}

// The largest distance between `buffers` and the arrays named prefix + name.
absl::StatusOr<double> LargestDistance(absl::Span<const NamedBuffer> buffers, const NamedArrays& expected,
                                       absl::string_view prefix) {
  double largest = 0;
  int64_t matched = 0;
  for (const NamedArray& array : expected.arrays()) {
    if (!absl::StartsWith(array.name, prefix)) continue;
    const std::string name = OurName(absl::string_view(array.name).substr(prefix.size()));
    const auto found =
        std::find_if(buffers.begin(), buffers.end(), [&](const NamedBuffer& b) { return b.name == name; });
    if (found == buffers.end()) {
      if (prefix.empty()) return absl::NotFoundError(absl::StrCat("the model has no ", name));
      continue;
    }
    ++matched;
    const std::vector<float> values = Floats(array);
    const int64_t count = static_cast<int64_t>(values.size());
    largest = std::max(largest, RelativeDistance(static_cast<const float*>(found->view.data), values.data(),
                                                 count, Counted(name, count)));
  }
  if (matched != static_cast<int64_t>(buffers.size())) {
    return absl::NotFoundError(
        absl::StrCat("the reference has ", matched, " of ", buffers.size(), " parameters"));
  }
  return largest;
}

absl::StatusOr<double> LogitsError(Engine& engine, const Reference& reference) {
  ARMATURE_ASSIGN_OR_RETURN(const Batch batch, BatchOf(reference, 0, /*with_targets=*/false));
  ARMATURE_ASSIGN_OR_RETURN(const Array logits, engine.Predict(batch));
  ARMATURE_ASSIGN_OR_RETURN(const NamedArray expected, reference.step0.Find("logits"));
  if (expected.shape != logits.shape()) {
    return absl::InvalidArgumentError(absl::StrCat("logits ", logits.shape().ToString(),
                                                   ", the reference has ", expected.shape.ToString()));
  }
  const std::vector<float> values = Floats(expected);
  return RelativeDistance(logits.values<float>().data(), values.data(), logits.shape().num_elements(),
                          [](int64_t) { return true; });
}

absl::StatusOr<double> FinalWeightsError(const Engine& engine, const Reference& reference) {
  std::vector<NamedBuffer> weights;
  std::vector<std::vector<float>> copies;
  ARMATURE_RETURN_IF_ERROR(engine.ExportWeights([&](const NamedBuffer& weight) {
    const float* values = static_cast<const float*>(weight.view.data);
    copies.emplace_back(values, values + weight.view.count);
    weights.push_back(weight);
    weights.back().view.data = copies.back().data();
    return absl::OkStatus();
  }));
  return LargestDistance(weights, reference.weights_after, "");
}

}  // namespace

bool GoldenErrors::ok() const {
  return loss <= 2e-6 && grad_norm <= 5e-6 && logits <= 1e-5 && first_gradients <= 1e-5 &&
         final_weights <= 1e-5;
}

absl::StatusOr<GoldenErrors> RunGolden(const std::string& directory, const GoldenLayout& layout,
                                       const std::function<void(const std::string&)>& print) {
  ARMATURE_ASSIGN_OR_RETURN(const Reference reference, Read(directory));
  ARMATURE_ASSIGN_OR_RETURN(Model model, MakeModel(reference.trace));
  ARMATURE_ASSIGN_OR_RETURN(const EngineConfig config, MakeConfig(reference.trace, layout));
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(config, std::move(model)));
  ARMATURE_RETURN_IF_ERROR(ImportWeights(*engine, reference, layout.transpose_square_projections));
  GoldenErrors errors;
  ARMATURE_ASSIGN_OR_RETURN(errors.logits, LogitsError(*engine, reference));
  const Json& losses = reference.trace["losses"];
  const Json& norms = reference.trace["grad_norms"];
  for (size_t step = 0; step < losses.size(); ++step) {
    ARMATURE_ASSIGN_OR_RETURN(const Batch batch, BatchOf(reference, static_cast<int64_t>(step), true));
    StepOptions options;
    if (step == 0) {
      options.on_gradients = [&](absl::Span<const NamedBuffer> gradients) -> absl::Status {
        ARMATURE_ASSIGN_OR_RETURN(errors.first_gradients,
                                  LargestDistance(gradients, reference.step0, "grad."));
        return absl::OkStatus();
      };
    }
    ARMATURE_ASSIGN_OR_RETURN(const StepResult result, engine->Step(batch, options));
    const double expected_loss = losses[step][0], expected_norm = norms[step];
    errors.loss = std::max(errors.loss, std::abs(result.loss - expected_loss));
    errors.grad_norm = std::max(errors.grad_norm, RelativeError(result.grad_norm, expected_norm));
    print(Json{{"step", step + 1},
               {"loss", {{"expected", expected_loss}, {"actual", result.loss}}},
               {"grad_norm", {{"expected", expected_norm}, {"actual", result.grad_norm}}}}
              .dump());
  }
  ARMATURE_ASSIGN_OR_RETURN(errors.final_weights, FinalWeightsError(*engine, reference));
  print(Json{{"largest_errors",
              {{"loss", errors.loss},
               {"grad_norm", errors.grad_norm},
               {"logits", errors.logits},
               {"first_gradients", errors.first_gradients},
               {"final_weights", errors.final_weights}}},
             {"within_tolerance", errors.ok()}}
            .dump());
  return errors;
}

}  // namespace armature
