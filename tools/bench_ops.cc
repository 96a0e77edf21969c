#include "armature/tools/bench_ops.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/base/thread_team.h"
#include "armature/optim/adam.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/activation.h"
#include "armature/tensor/ops/attention.h"
#include "armature/tensor/ops/dropout.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/linear.h"
#include "armature/tensor/ops/loss.h"
#include "armature/tensor/ops/norm.h"
#include "armature/tensor/tape.h"
#include "nlohmann/json.hpp"

namespace armature {
namespace {

constexpr int64_t kHidden = 768, kHeads = 12, kVocabulary = 50257, kPositions = 512;
constexpr int kRepeats = 9;

// A tensor's gradient that nobody reads.
class Discard : public GradientTarget {
 public:
  explicit Discard(Tensor place) : place_(std::move(place)) {}
  GradientSlot Slot() override { return {place_, false}; }
  void Contributed() override {}

 private:
  const Tensor place_;
};

class Bench {
 public:
  Bench(const BenchOpsCommand& command, Backend& backend, ThreadTeam& team)
      : command_(command), backend_(backend), team_(team) {}

  absl::Status RunAll();

 private:
  Tensor Random(const Shape& shape) {
    Tensor tensor = Tensor::Empty(backend_, shape, DType::kF32, MemoryCategory::kActivations);
    if (!tensor.ok()) return tensor;
    RandomFillArgs fill;
    fill.y = tensor.data();
    fill.region.cols = fill.region.global_cols = tensor.num_elements();
    const absl::Status filled = backend_.kernels().random_fill(backend_.compute_stream(), fill);
    return filled.ok() ? tensor : Tensor::Failed(filled);
  }

  absl::StatusOr<double> Time(const std::function<absl::Status()>& body);
  void Report(const std::string& name, double seconds, double work, double& yardstick,
              absl::string_view unit);
  // The forward and then the backward of an operation of these inputs; `moved` and `flops` are the forward's,
  // and the backward does twice as much.
  absl::Status Operation(const std::string& name, const std::vector<Shape>& inputs,
                         const std::function<Tensor(const std::vector<Tensor>&)>& forward, double gigabytes,
                         double gigaflops);
  absl::Status Copy();
  absl::Status AdamW();

  const BenchOpsCommand command_;
  Backend& backend_;
  ThreadTeam& team_;
  double copy_rate_ = 0, product_rate_ = 0;
};

absl::StatusOr<double> Bench::Time(const std::function<absl::Status()>& body) {
  ARMATURE_RETURN_IF_ERROR(body());
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    const absl::Time start = absl::Now();
    ARMATURE_RETURN_IF_ERROR(body());
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// `yardstick` is set by the first row of its unit.
void Bench::Report(const std::string& name, double seconds, double work, double& yardstick,
                   absl::string_view unit) {
  const double rate = work / seconds;
  if (yardstick == 0) yardstick = rate;
  if (command_.json) {
    const nlohmann::ordered_json row = {{"op", name},
                                        {"milliseconds", seconds * 1e3},
                                        {"rate", rate},
                                        {"unit", std::string(unit)},
                                        {"share", rate / yardstick}};
    std::cout << row.dump() << std::endl;
  } else {
    std::cout << absl::StreamFormat("%-28s %10.3f ms %9.1f %-8s %5.2f\n", name, seconds * 1e3, rate, unit,
                                    rate / yardstick);
  }
}

absl::Status Bench::Operation(const std::string& name, const std::vector<Shape>& inputs,
                              const std::function<Tensor(const std::vector<Tensor>&)>& forward,
                              double gigabytes, double gigaflops) {
  std::vector<Tensor> values, gradients;
  std::vector<std::unique_ptr<Discard>> targets;
  for (const Shape& shape : inputs) {
    values.push_back(Random(shape));
    ARMATURE_RETURN_IF_ERROR(values.back().status());
    gradients.push_back(Random(shape));
    ARMATURE_RETURN_IF_ERROR(gradients.back().status());
    targets.push_back(std::make_unique<Discard>(gradients.back()));
  }
  double& yardstick = gigaflops > 0 ? product_rate_ : copy_rate_;
  const double work = gigaflops > 0 ? gigaflops : gigabytes;
  const absl::string_view unit = gigaflops > 0 ? "GFLOP/s" : "GB/s";
  ARMATURE_ASSIGN_OR_RETURN(const double forward_seconds, Time([&] { return forward(values).status(); }),
                            name);
  Report(name, forward_seconds, work, yardstick, unit);

  Tensor seed = forward(values);
  ARMATURE_RETURN_IF_ERROR(seed.status());
  seed = Random(seed.shape());
  std::vector<double> seconds;
  for (int i = 0; i < kRepeats; ++i) {
    Tape tape(backend_);
    std::vector<Tensor> watched;
    for (size_t k = 0; k < values.size(); ++k) watched.push_back(tape.Watch(values[k], targets[k].get()));
    Tensor out = forward(watched);
    watched.clear();
    const absl::Time start = absl::Now();
    ARMATURE_RETURN_IF_ERROR(tape.Backward({out}, {seed}), name);
    seconds.push_back(absl::ToDoubleSeconds(absl::Now() - start));
  }
  std::sort(seconds.begin(), seconds.end());
  Report(name + " backward", seconds[seconds.size() / 2], 2 * work, yardstick, unit);
  return absl::OkStatus();
}

absl::Status Bench::Copy() {
  const int64_t count = int64_t{1} << 26;
  const Tensor from = Random({count}), to = Random({count});
  ARMATURE_RETURN_IF_ERROR(from.status());
  ARMATURE_RETURN_IF_ERROR(to.status());
  ARMATURE_ASSIGN_OR_RETURN(const double seconds, Time([&] {
                              team_.ParallelFor(count, 1, [&](int64_t begin, int64_t end) {
                                std::memcpy(static_cast<float*>(to.data()) + begin,
                                            static_cast<const float*>(from.data()) + begin,
                                            (end - begin) * sizeof(float));
                              });
                              return absl::OkStatus();
                            }));
  Report("copy", seconds, 8e-9 * count, copy_rate_, "GB/s");
  return absl::OkStatus();
}

// 28 bytes a parameter: reads weight, gradient and two moments, writes weight and moments.
absl::Status Bench::AdamW() {
  const int64_t count = int64_t{1} << 25;
  std::vector<Tensor> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(Random({count}));
  for (int i = 0; i < 2; ++i) {
    parts.push_back(Tensor::Zeros(backend_, {count}, DType::kF32, MemoryCategory::kOptimizer));
  }
  for (const Tensor& part : parts) ARMATURE_RETURN_IF_ERROR(part.status());
  const auto span = [&](int i) { return absl::MakeSpan(static_cast<float*>(parts[i].data()), count); };
  const absl::Span<float> states[] = {span(2), span(3)};
  UpdateView view;
  view.weight = span(0);
  view.gradient = span(1);
  view.state = states;
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<UpdateRule> rule, MakeAdamW({}));
  StepFacts step;
  step.learning_rate = 1e-3;
  step.threads = &team_;
  ARMATURE_ASSIGN_OR_RETURN(const double seconds, Time([&] {
                              ++step.count;
                              return rule->Update(absl::MakeConstSpan(&view, 1), step);
                            }));
  Report("adamw", seconds, 28e-9 * count, copy_rate_, "GB/s");
  return absl::OkStatus();
}

absl::Status Bench::RunAll() {
  const int64_t rows = command_.tokens;
  const double row_gb = 4e-9 * rows * kHidden;  // one pass over [rows, hidden]
  if (!command_.json)
    std::cout << absl::StreamFormat("%-28s %13s %18s %5s\n", "operation", "time", "rate", "share");
  ARMATURE_RETURN_IF_ERROR(Copy());
  ARMATURE_RETURN_IF_ERROR(AdamW());
  ARMATURE_RETURN_IF_ERROR(Operation(
      "linear 768x3072", {{rows, kHidden}, {kHidden, 4 * kHidden}},
      [](const std::vector<Tensor>& in) { return ops::Linear(in[0], in[1], Tensor()); }, 0,
      2e-9 * rows * kHidden * 4 * kHidden));
  const int64_t samples = std::max<int64_t>(rows / kPositions, 1);
  ops::AttentionOptions attention;
  attention.heads = kHeads;
  attention.causal = true;
  ARMATURE_RETURN_IF_ERROR(Operation(
      "attention 512 causal", {{samples, kPositions, 3 * kHidden}},
      [&](const std::vector<Tensor>& in) { return ops::SelfAttention(in[0], attention); }, 0,
      2e-9 * samples * kPositions * kPositions * kHidden));
  ARMATURE_RETURN_IF_ERROR(Operation(
      "layer norm", {{rows, kHidden}, {kHidden}, {kHidden}},
      [](const std::vector<Tensor>& in) { return ops::LayerNorm(in[0], in[1], in[2]); }, 2 * row_gb, 0));
  ARMATURE_RETURN_IF_ERROR(Operation(
      "gelu tanh", {{rows, 4 * kHidden}},
      [](const std::vector<Tensor>& in) { return ops::Activate(in[0], Activation::kGeluTanh); }, 8 * row_gb,
      0));
  RandomRegion region;
  region.cols = region.global_cols = kHidden;
  ARMATURE_RETURN_IF_ERROR(Operation(
      "dropout + add", {{rows, kHidden}, {rows, kHidden}},
      [&](const std::vector<Tensor>& in) { return ops::Dropout(in[0], in[1], 0.1, region); }, 3 * row_gb, 0));
  ARMATURE_RETURN_IF_ERROR(Operation(
      "softmax", {{rows, kHidden}}, [](const std::vector<Tensor>& in) { return ops::Softmax(in[0]); },
      2 * row_gb, 0));
  const std::vector<int32_t> classes(rows, 7);
  const Tensor targets = Tensor::FromHost<int32_t>(backend_, {rows}, classes, DType::kI32);
  return Operation(
      "cross-entropy 50257", {{rows, kVocabulary}},
      [&](const std::vector<Tensor>& in) { return ops::CrossEntropy(in[0], targets); },
      4e-9 * rows * kVocabulary, 0);
}

}  // namespace

absl::Status Run(const BenchOpsCommand& command, FileSystem&) {
  if (command.tokens < 1) return absl::InvalidArgumentError("--tokens must be at least 1");
  ThreadTeam team(command.threads > 0 ? command.threads
                                      : static_cast<int>(std::thread::hardware_concurrency()));
  CpuOptions options;
  options.team = &team;
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Backend> backend, MakeCpuBackend(options));
  return Bench(command, *backend, team).RunAll();
}

}  // namespace armature
