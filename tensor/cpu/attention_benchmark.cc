// Attention's rate as a share of the matrix products' of the same team in the same run.
//
// FLOPs: 4 dim for each pair of a query and a key forward, 10 dim backward; a causal mask leaves half of the
// pairs. "share" is that rate over the rate of [1024, 768] x [768, 768].
#include <chrono>
#include <cmath>
#include <limits>
#include <vector>

#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/cpu_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "benchmark/benchmark.h"

namespace armature {
namespace {

using Floats = std::vector<float>;

template <typename Body>
double SecondsOf(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Floats Wave(int64_t count) {
  Floats values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = std::sin(0.37f * static_cast<float>(i));
  return values;
}

// The product that the rates are compared with.
class Yardstick {
 public:
  explicit Yardstick(Stream& stream)
      : stream_(stream), a_(Wave(1024 * 768)), b_(Wave(768 * 768)), c_(1024 * 768) {
    args_.a = a_.data(), args_.b = b_.data(), args_.c = c_.data();
    args_.m = 1024, args_.n = args_.k = 768;
    args_.lda = args_.ldb = args_.ldc = 768;
  }

  double flops() const { return 2.0 * 1024 * 768 * 768; }
  double Seconds() {
    return SecondsOf([&] { benchmark::DoNotOptimize(CpuKernels().matmul(stream_, args_)); });
  }

 private:
  Stream& stream_;
  const Floats a_, b_;
  Floats c_;
  MatMulArgs args_;
};

// GPT-2 small's heads in a fused tensor: 12 of 64.
AttentionShape Gpt2Heads(int64_t sequence, bool causal, double dropout) {
  AttentionShape shape;
  shape.batch = 1;
  shape.heads = shape.kv_heads = 12;
  shape.q_len = shape.kv_len = sequence;
  shape.dim = 64;
  shape.q_stride = shape.k_stride = shape.v_stride = 3 * 768;
  shape.out_stride = 768;
  shape.scale = 0.125;
  shape.causal = causal;
  shape.dropout = dropout;
  return shape;
}

void AttentionAgainstMatMul(benchmark::State& state) {
  const int64_t sequence = state.range(0);
  const AttentionShape shape =
      Gpt2Heads(sequence, state.range(1) != 0, static_cast<double>(state.range(2)) / 100);
  ThreadTeam team(static_cast<int>(state.range(3)));
  CpuStream stream(team);
  Yardstick yardstick(stream);
  const Floats qkv = Wave(sequence * 3 * 768), dout = Wave(sequence * 768);
  Floats out(dout.size()), lse(12 * sequence), dqkv(qkv.size());
  AttentionArgs forward;
  forward.shape = shape;
  forward.q = qkv.data(), forward.k = qkv.data() + 768, forward.v = qkv.data() + 2 * 768;
  forward.out = out.data(), forward.lse = lse.data();
  AttentionBackwardArgs backward;
  backward.shape = shape;
  backward.q = forward.q, backward.k = forward.k, backward.v = forward.v;
  backward.out = out.data(), backward.lse = lse.data(), backward.dout = dout.data();
  backward.dq = dqkv.data(), backward.dk = dqkv.data() + 768, backward.dv = dqkv.data() + 2 * 768;

  // The best of the repetitions: neighbours of the machine only ever add time.
  const double none = std::numeric_limits<double>::infinity();
  double product = none, ahead = none, back = none;
  for (auto _ : state) {
    product = std::min(product, yardstick.Seconds());
    ahead = std::min(ahead,
                     SecondsOf([&] { benchmark::DoNotOptimize(CpuKernels().attention(stream, forward)); }));
    back = std::min(back, SecondsOf([&] {
                      benchmark::DoNotOptimize(CpuKernels().attention_backward(stream, backward));
                    }));
  }
  const double pairs = 12.0 * static_cast<double>(sequence * sequence) / (shape.causal ? 2 : 1);
  const double rate = yardstick.flops() / product;
  state.counters["matmul_GF/s"] = rate / 1e9;
  state.counters["forward_GF/s"] = 4 * 64 * pairs / ahead / 1e9;
  state.counters["backward_GF/s"] = 10 * 64 * pairs / back / 1e9;
  state.counters["forward_share"] = 4 * 64 * pairs / ahead / rate;
  state.counters["backward_share"] = 10 * 64 * pairs / back / rate;
}

BENCHMARK(AttentionAgainstMatMul)
    ->ArgNames({"sequence", "causal", "dropout%", "threads"})
    ->ArgsProduct({{512, 1024}, {0, 1}, {0, 10}, {1}})
    ->Args({1024, 1, 0, 2})
    ->Iterations(30)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace armature
