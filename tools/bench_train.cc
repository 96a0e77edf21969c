#include "armature/tools/bench_train.h"

#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/engine/engine.h"
#include "armature/models/gpt2.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/random.h"
#include "armature/tensor/tensor.h"
#include "nlohmann/json.hpp"

namespace armature {
namespace {

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double SecondsOf(const std::function<void()>& body) {
  const absl::Time start = absl::Now();
  body();
  return absl::ToDoubleSeconds(absl::Now() - start);
}

absl::StatusOr<Gpt2Config> Preset(const std::string& name) {
  if (name == "gpt2-124m") return Gpt2Small();
  if (name == "gpt2-355m") return Gpt2Medium();
  if (name == "gpt2-774m") return Gpt2Large();
  if (name == "gpt2-1558m") return Gpt2Xl();
  if (name == "gpt2-tiny") {
    Gpt2Config tiny;
    tiny.vocabulary = 256;
    tiny.hidden = 64;
    tiny.layers = 2;
    tiny.heads = 2;
    return tiny;
  }
  return absl::InvalidArgumentError(absl::StrCat("--preset ", name, " is unknown"));
}

absl::StatusOr<Batch> RandomBatch(const Gpt2Config& gpt2, int64_t samples, int64_t positions) {
  const RandomKey key = MakeRandomKey(1, RandomPurpose::kSampling, 0, 0);
  Batch batch;
  for (const char* name : {"tokens", "targets"}) {
    std::vector<int32_t> values(samples * positions);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<int32_t>(RandomBits(key, batch.fields.size(), i) % gpt2.vocabulary);
    }
    ARMATURE_ASSIGN_OR_RETURN(Array array, Array::FromValues<int32_t>({samples, positions}, values));
    batch.fields.push_back({name, std::move(array)});
  }
  return batch;
}

// All products of the linears of one step, forward and backward, at their own shapes and on their own
// weights.
class Products {
 public:
  static absl::StatusOr<std::unique_ptr<Products>> Create(const Gpt2Config& gpt2, int64_t rows, int threads) {
    std::unique_ptr<Products> products(new Products(rows));
    CpuOptions options;
    options.threads = threads;
    ARMATURE_ASSIGN_OR_RETURN(products->backend_, MakeCpuBackend(options));
    const int64_t hidden = gpt2.hidden;
    for (const auto& [in, out] : {std::pair(hidden, 3 * hidden), std::pair(hidden, hidden),
                                  std::pair(hidden, 4 * hidden), std::pair(4 * hidden, hidden)}) {
      ARMATURE_RETURN_IF_ERROR(products->Add(in, out, gpt2.layers));
    }
    ARMATURE_RETURN_IF_ERROR(products->Add(hidden, gpt2.vocabulary, 1));
    return products;
  }

  double flops() const { return flops_; }
  // One step's worth.
  absl::Status Run() {
    for (const Linear& linear : linears_) {
      for (int64_t i = 0; i < linear.repeats; ++i) {
        // The weights are [in, out]; a tied head's are [out, in], which swaps the names and not the
        // arithmetic.
        ARMATURE_RETURN_IF_ERROR(
            Multiply(linear.x, linear.w, linear.y, rows_, linear.out, linear.in, false, false));
        ARMATURE_RETURN_IF_ERROR(
            Multiply(linear.y, linear.w, linear.x, rows_, linear.in, linear.out, false, true));
        ARMATURE_RETURN_IF_ERROR(
            Multiply(linear.x, linear.y, linear.dw, linear.in, linear.out, rows_, true, false));
      }
    }
    return absl::OkStatus();
  }

 private:
  struct Linear {
    int64_t in, out, repeats;
    Tensor x, w, y, dw;
  };

  explicit Products(int64_t rows) : rows_(rows) {}

  absl::Status Add(int64_t in, int64_t out, int64_t repeats) {
    const auto zeros = [&](int64_t m, int64_t n) {
      return Tensor::Zeros(*backend_, {m, n}, DType::kF32, MemoryCategory::kOther);
    };
    Linear linear{in, out, repeats, zeros(rows_, in), zeros(in, out), zeros(rows_, out), zeros(in, out)};
    for (const Tensor* tensor : {&linear.x, &linear.w, &linear.y, &linear.dw}) {
      ARMATURE_RETURN_IF_ERROR(tensor->status());
    }
    linears_.push_back(std::move(linear));
    flops_ += 3 * 2.0 * static_cast<double>(rows_) * in * out * repeats;
    return absl::OkStatus();
  }

  absl::Status Multiply(const Tensor& a, const Tensor& b, const Tensor& c, int64_t m, int64_t n, int64_t k,
                        bool transpose_a, bool transpose_b) {
    MatMulArgs args;
    args.a = a.data();
    args.b = b.data();
    args.c = c.data();
    args.m = m;
    args.n = n;
    args.k = k;
    args.transpose_a = transpose_a;
    args.transpose_b = transpose_b;
    args.lda = a.shape().dim(1);
    args.ldb = b.shape().dim(1);
    args.ldc = c.shape().dim(1);
    return backend_->kernels().matmul(backend_->compute_stream(), args);
  }

  const int64_t rows_;
  std::unique_ptr<Backend> backend_;
  std::vector<Linear> linears_;
  double flops_ = 0;
};

int64_t PeakRssBytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * int64_t{1024};
}

struct Measured {
  std::vector<double> step, forward, backward, update, products;
};

void Print(const BenchTrainCommand& command, const nlohmann::ordered_json& result) {
  if (command.json) {
    std::cout << result.dump() << std::endl;
    return;
  }
  for (const auto& [name, value] : result.items()) {
    std::cout << absl::StreamFormat("%-26s %s\n", name, value.dump());
  }
}

}  // namespace

absl::Status Run(const BenchTrainCommand& command, FileSystem&) {
  ARMATURE_ASSIGN_OR_RETURN(Gpt2Config gpt2, Preset(command.preset));
  gpt2.dropout = command.dropout;
  if (command.batch < 1 || command.sequence < 1 || command.sequence > gpt2.max_positions ||
      command.steps < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("--batch and --steps must be at least 1, --seq between 1 and ", gpt2.max_positions));
  }
  const int threads =
      command.threads > 0 ? command.threads : static_cast<int>(std::thread::hardware_concurrency());
  EngineConfig config;
  config.set_threads(threads);
  config.mutable_learning_rate()->set_peak(1e-4);
  config.set_clip_norm(1);
  ARMATURE_ASSIGN_OR_RETURN(Model model, MakeGpt2(gpt2));
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Engine> engine, Engine::Create(config, std::move(model)));
  ARMATURE_ASSIGN_OR_RETURN(const Batch batch, RandomBatch(gpt2, command.batch, command.sequence));
  for (int i = 0; i < 2; ++i) ARMATURE_RETURN_IF_ERROR(engine->Step(batch).status());
  // Before the products take memory of their own.
  const int64_t peak_bytes = engine->total_memory().peak_bytes, peak_rss_bytes = PeakRssBytes();

  const int64_t tokens = command.batch * command.sequence;
  ARMATURE_ASSIGN_OR_RETURN(const std::unique_ptr<Products> products,
                            Products::Create(gpt2, tokens, threads));
  ARMATURE_RETURN_IF_ERROR(products->Run());
  Measured measured;
  // In turn, so that a slow spell of the machine meets both.
  for (int64_t i = 0; i < command.steps; ++i) {
    ARMATURE_ASSIGN_OR_RETURN(const StepResult step, engine->Step(batch));
    measured.step.push_back(absl::ToDoubleSeconds(step.duration));
    measured.forward.push_back(absl::ToDoubleSeconds(step.forward));
    measured.backward.push_back(absl::ToDoubleSeconds(step.backward));
    measured.update.push_back(absl::ToDoubleSeconds(step.update));
    absl::Status status;
    measured.products.push_back(SecondsOf([&] { status = products->Run(); }));
    ARMATURE_RETURN_IF_ERROR(status);
  }
  const double seconds = Median(measured.step);
  const double model_rate = engine->FlopsPerStep(command.batch, command.sequence) / seconds;
  const double product_rate = products->flops() / Median(measured.products);
  Print(command, {{"preset", command.preset},
                  {"batch", command.batch},
                  {"sequence", command.sequence},
                  {"threads", threads},
                  {"dropout", command.dropout},
                  {"parameters", engine->num_parameters()},
                  {"step_seconds", seconds},
                  {"tokens_per_second", tokens / seconds},
                  {"model_flops_per_second", model_rate},
                  {"matmul_flops_per_second", product_rate},
                  {"ratio", model_rate / product_rate},
                  {"peak_bytes", peak_bytes},
                  {"peak_rss_bytes", peak_rss_bytes},
                  {"forward_seconds", Median(measured.forward)},
                  {"backward_seconds", Median(measured.backward)},
                  {"update_seconds", Median(measured.update)}});
  return absl::OkStatus();
}

}  // namespace armature
