// Bandwidth of the CPU's kernels at GPT-2-small's sizes: 256 and 1024 tokens of 768 or 3072 columns, 50257
// classes.
//
// bytes_per_second counts what a kernel must move: each input read once, each output written once. Copy is
// the rate of this machine's memory (or, for small sizes, of its cache) to compare with.
//
//   bazel run -c opt //tensor/cpu:kernels_benchmark -- --benchmark_filter=LayerNorm
#include <cstring>
#include <vector>

#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/cpu_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "benchmark/benchmark.h"

namespace armature {
namespace {

using Floats = std::vector<float>;

constexpr int64_t kHidden = 768, kInner = 3072, kClasses = 50257;

Floats Values(int64_t count) {
  Floats values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7919 % 4001) * 1e-3f - 2;
  return values;
}

template <typename Args>
void Measure(benchmark::State& state, absl::Status (*kernel)(Stream&, const Args&), const Args& args,
             int64_t bytes) {
  ThreadTeam team(static_cast<int>(state.range(1)));
  CpuStream stream(team);
  for (auto _ : state) {
    const absl::Status status = kernel(stream, args);
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * bytes);
}

void Copy(benchmark::State& state) {
  const int64_t bytes = state.range(0) * kInner * 4;
  const Floats x = Values(bytes / 4);
  Floats y(x.size());
  for (auto _ : state) {
    std::memcpy(y.data(), x.data(), bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * bytes);
}

template <Activation kActivation>
void BiasActivation(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats x = Values(count), bias = Values(kInner);
  Floats y(count), pre(count);
  BiasActivationArgs args;
  args.x = x.data();
  args.bias = bias.data();
  args.y = y.data();
  args.pre = pre.data();
  args.rows = state.range(0);
  args.cols = kInner;
  args.activation = kActivation;
  Measure(state, CpuKernels().bias_activation, args, 12 * count);
}

template <Activation kActivation>
void ActivationBackward(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats pre = Values(count), dy = Values(count);
  Floats dx(count);
  ActivationBackwardArgs args;
  args.pre = pre.data();
  args.dy = dy.data();
  args.dx = dx.data();
  args.count = count;
  args.activation = kActivation;
  Measure(state, CpuKernels().activation_backward, args, 12 * count);
}

void ColumnSum(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats x = Values(count);
  Floats out(kInner);
  ColumnSumArgs args;
  args.x = x.data();
  args.out = out.data();
  args.rows = state.range(0);
  args.cols = kInner;
  Measure(state, CpuKernels().column_sum, args, 4 * count);
}

template <bool kRms>
void Norm(benchmark::State& state) {
  const int64_t count = state.range(0) * kHidden;
  const Floats x = Values(count), weight = Values(kHidden), bias = Values(kHidden);
  Floats y(count), mean(state.range(0)), rstd(state.range(0));
  NormArgs args;
  args.x = x.data();
  args.weight = weight.data();
  args.bias = kRms ? nullptr : bias.data();
  args.y = y.data();
  args.mean = kRms ? nullptr : mean.data();
  args.rstd = rstd.data();
  args.rows = state.range(0);
  args.cols = kHidden;
  Measure(state, kRms ? CpuKernels().rms_norm : CpuKernels().layer_norm, args, 8 * count);
}

template <bool kRms>
void NormBackward(benchmark::State& state) {
  const int64_t count = state.range(0) * kHidden;
  const Floats x = Values(count), dy = Values(count), weight = Values(kHidden);
  const Floats mean(state.range(0), 0.0f), rstd(state.range(0), 1.0f);
  Floats dx(count), dweight(kHidden), dbias(kHidden);
  NormBackwardArgs args;
  args.dy = dy.data();
  args.x = x.data();
  args.weight = weight.data();
  args.mean = kRms ? nullptr : mean.data();
  args.rstd = rstd.data();
  args.dx = dx.data();
  args.dweight = dweight.data();
  args.dbias = kRms ? nullptr : dbias.data();
  args.rows = state.range(0);
  args.cols = kHidden;
  Measure(state, CpuKernels().layer_norm_backward, args, 12 * count);
}

void Softmax(benchmark::State& state) {
  const int64_t count = state.range(0) * 1024;
  const Floats x = Values(count);
  Floats y(count);
  SoftmaxArgs args;
  args.x = x.data();
  args.y = y.data();
  args.rows = state.range(0);
  args.cols = 1024;
  Measure(state, CpuKernels().softmax, args, 8 * count);
}

void CrossEntropy(benchmark::State& state) {
  const int64_t rows = state.range(0), count = rows * kClasses;
  const Floats logits = Values(count);
  const std::vector<int32_t> targets(rows, 7);
  Floats losses(rows), lse(rows);
  CrossEntropyArgs args;
  args.logits = logits.data();
  args.targets = targets.data();
  args.losses = losses.data();
  args.lse = lse.data();
  args.rows = rows;
  args.classes = args.stride = kClasses;
  Measure(state, CpuKernels().cross_entropy, args, 4 * count);
}

void CrossEntropyBackward(benchmark::State& state) {
  const int64_t rows = state.range(0), count = rows * kClasses;
  Floats logits = Values(count);
  const std::vector<int32_t> targets(rows, 7);
  const Floats lse(rows, 12.0f);
  const float dloss = 1;
  CrossEntropyBackwardArgs args;
  args.logits = args.dlogits = logits.data();
  args.targets = targets.data();
  args.lse = lse.data();
  args.dloss = &dloss;
  args.rows = rows;
  args.classes = args.stride = kClasses;
  Measure(state, CpuKernels().cross_entropy_backward, args, 8 * count);
}

void Embedding(benchmark::State& state) {
  const int64_t count = state.range(0);
  const Floats table = Values(kClasses * kHidden);
  Floats out(count * kHidden);
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 7919 % kClasses);
  EmbeddingArgs args;
  args.table = table.data();
  args.ids = ids.data();
  args.out = out.data();
  args.count = count;
  args.rows = kClasses;
  args.cols = kHidden;
  Measure(state, CpuKernels().embedding, args, 8 * count * kHidden);
}

template <bool kAccumulate>
void EmbeddingBackward(benchmark::State& state) {
  const int64_t count = state.range(0);
  const Floats dout = Values(count * kHidden);
  Floats dtable(kClasses * kHidden);
  std::vector<int32_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>(i * 7919 % kClasses);
  EmbeddingBackwardArgs args;
  args.dout = dout.data();
  args.ids = ids.data();
  args.dtable = dtable.data();
  args.count = count;
  args.rows = kClasses;
  args.cols = kHidden;
  args.accumulate = kAccumulate;
  const int64_t cleared = kAccumulate ? 0 : 4 * kClasses * kHidden;
  Measure(state, CpuKernels().embedding_backward, args, cleared + 12 * count * kHidden);
}

void DropoutAdd(benchmark::State& state) {
  const int64_t count = state.range(0) * kHidden;
  const Floats x = Values(count), residual = Values(count);
  Floats y(count);
  DropoutArgs args;
  args.x = x.data();
  args.residual = residual.data();
  args.y = y.data();
  args.samples = 1;
  args.p = 0.1;
  args.region.rows = state.range(0);
  args.region.cols = args.region.global_cols = kHidden;
  Measure(state, CpuKernels().dropout, args, 12 * count);
}

void Axpby(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats a = Values(count), b = Values(count);
  Floats y(count);
  AxpbyArgs args;
  args.a = a.data();
  args.b = b.data();
  args.y = y.data();
  args.count = count;
  Measure(state, CpuKernels().axpby, args, 12 * count);
}

void Multiply(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats a = Values(count), b = Values(count);
  Floats y(count);
  MultiplyArgs args;
  args.a = a.data();
  args.b = b.data();
  args.y = y.data();
  args.count = count;
  Measure(state, CpuKernels().multiply, args, 12 * count);
}

void Sum(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats x = Values(count);
  float out = 0;
  SumArgs args;
  args.x = x.data();
  args.out = &out;
  args.count = count;
  Measure(state, CpuKernels().sum, args, 4 * count);
}

template <DType kFrom, DType kTo>
void Cast(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  const Floats x = Values(count);
  Floats y(count);
  CastArgs args;
  args.x = x.data();
  args.y = y.data();
  args.count = count;
  args.from = kFrom;
  args.to = kTo;
  Measure(state, CpuKernels().cast, args, 6 * count);
}

void Fill(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  Floats y(count);
  FillArgs args;
  args.y = y.data();
  args.count = count;
  Measure(state, CpuKernels().fill, args, 4 * count);
}

template <bool kNormal>
void RandomFill(benchmark::State& state) {
  const int64_t count = state.range(0) * kInner;
  Floats y(count);
  RandomFillArgs args;
  args.y = y.data();
  args.region.rows = state.range(0);
  args.region.cols = args.region.global_cols = kInner;
  args.normal = kNormal;
  Measure(state, CpuKernels().random_fill, args, 4 * count);
}

// {tokens, threads}.
void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"tokens", "threads"})->UseRealTime();
  for (int64_t tokens : {256, 1024}) {
    for (int64_t threads : {1, 2}) benchmark->Args({tokens, threads});
  }
}

BENCHMARK(Copy)->Args({256, 1})->Args({1024, 1})->ArgNames({"tokens", "threads"})->UseRealTime();
BENCHMARK_TEMPLATE(BiasActivation, Activation::kNone)->Apply(Sizes);
BENCHMARK_TEMPLATE(BiasActivation, Activation::kGeluErf)->Apply(Sizes);
BENCHMARK_TEMPLATE(BiasActivation, Activation::kGeluTanh)->Apply(Sizes);
BENCHMARK_TEMPLATE(BiasActivation, Activation::kSilu)->Apply(Sizes);
BENCHMARK_TEMPLATE(ActivationBackward, Activation::kGeluErf)->Apply(Sizes);
BENCHMARK_TEMPLATE(ActivationBackward, Activation::kGeluTanh)->Apply(Sizes);
BENCHMARK(ColumnSum)->Apply(Sizes);
BENCHMARK_TEMPLATE(Norm, false)->Name("LayerNorm")->Apply(Sizes);
BENCHMARK_TEMPLATE(Norm, true)->Name("RmsNorm")->Apply(Sizes);
BENCHMARK_TEMPLATE(NormBackward, false)->Name("LayerNormBackward")->Apply(Sizes);
BENCHMARK_TEMPLATE(NormBackward, true)->Name("RmsNormBackward")->Apply(Sizes);
BENCHMARK(Softmax)->Apply(Sizes);
BENCHMARK(CrossEntropy)->Apply(Sizes);
BENCHMARK(CrossEntropyBackward)->Apply(Sizes);
BENCHMARK(Embedding)->Apply(Sizes);
BENCHMARK_TEMPLATE(EmbeddingBackward, false)->Name("EmbeddingBackwardClearing")->Apply(Sizes);
BENCHMARK_TEMPLATE(EmbeddingBackward, true)->Name("EmbeddingBackwardAdding")->Apply(Sizes);
BENCHMARK(DropoutAdd)->Apply(Sizes);
BENCHMARK(Axpby)->Apply(Sizes);
BENCHMARK(Multiply)->Apply(Sizes);
BENCHMARK(Sum)->Apply(Sizes);
BENCHMARK_TEMPLATE(Cast, DType::kF32, DType::kBF16)->Apply(Sizes);
BENCHMARK_TEMPLATE(Cast, DType::kBF16, DType::kF32)->Apply(Sizes);
BENCHMARK_TEMPLATE(Cast, DType::kF32, DType::kF16)->Apply(Sizes);
BENCHMARK(Fill)->Apply(Sizes);
BENCHMARK_TEMPLATE(RandomFill, true)->Name("RandomFillNormal")->Apply(Sizes);
BENCHMARK_TEMPLATE(RandomFill, false)->Name("RandomFillUniform")->Apply(Sizes);

}  // namespace
}  // namespace armature
