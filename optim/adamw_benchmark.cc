// AdamW's rate over the parameters of a GPT-2 small, as a share of what the same threads copy with memcpy in
// the same run, counting bytes read and written in both. The memory's rate is the bound of a one-pass update.
//
// GB/s of a copy: 8 bytes an element; of an update: 28. "share" is the quotient, "parameters/s" what a user
// sees.
#include <chrono>
#include <cstring>
#include <vector>

#include "armature/base/thread_team.h"
#include "armature/optim/adam.h"
#include "armature/optim/clip.h"
#include "benchmark/benchmark.h"

namespace armature {
namespace {

using Seconds = std::chrono::duration<double>;

template <typename Body>
double SecondsOf(const Body& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return Seconds(std::chrono::steady_clock::now() - start).count();
}

void CopyWith(ThreadTeam& team, const std::vector<float>& from, std::vector<float>& to) {
  team.ParallelFor(static_cast<int64_t>(from.size()), 1024, [&](int64_t begin, int64_t end) {
    std::memcpy(&to[begin], &from[begin], (end - begin) * sizeof(float));
  });
}

void AdamWAgainstCopy(benchmark::State& state) {
  const int64_t count = state.range(0);
  ThreadTeam team(static_cast<int>(state.range(1)));
  std::vector<float> weight(count, 0.5f), gradient(count, 1e-3f), m(count), v(count), copy(count);
  const auto rule = MakeAdamW(AdamWOptions());
  absl::Span<float> states[] = {absl::MakeSpan(m), absl::MakeSpan(v)};
  const UpdateView view{absl::MakeSpan(weight), gradient, states, {}};
  StepFacts step;
  step.learning_rate = 1e-4;
  step.threads = &team;

  double copying = 0, updating = 0, norming = 0;
  for (auto _ : state) {
    copying += SecondsOf([&] { CopyWith(team, gradient, copy); });
    const double update = SecondsOf([&] {
      if (!(*rule)->Update(absl::MakeConstSpan(&view, 1), step).ok()) state.SkipWithError("update failed");
    });
    const absl::Span<const float> parts[] = {gradient};
    norming += SecondsOf([&] { benchmark::DoNotOptimize(SumOfSquares(parts, &team)); });
    updating += update;
    state.SetIterationTime(update);
    ++step.count;
  }
  const double elements = static_cast<double>(count) * static_cast<double>(state.iterations());
  state.counters["copy_GB/s"] = 8 * elements / copying / 1e9;
  state.counters["adamw_GB/s"] = 28 * elements / updating / 1e9;
  state.counters["norm_GB/s"] = 4 * elements / norming / 1e9;
  state.counters["share"] = (28 / updating) / (8 / copying);
  state.counters["parameters/s"] = elements / updating;
}

BENCHMARK(AdamWAgainstCopy)
    ->ArgNames({"parameters", "threads"})
    ->Args({124439808, 1})
    ->Args({124439808, 2})
    ->Iterations(10)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace armature
