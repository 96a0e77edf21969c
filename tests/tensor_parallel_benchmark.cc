// A forward and backward of GPT-2 small's width on two cores: one rank with two threads, against a tensor
// group of two ranks with one thread each.
//
// Two of the twelve blocks, and the whole vocabulary; 512 tokens in one or four samples. The two layouts take
// turns. "ratio" is the tensor group's throughput over the one rank's, by the best step of each.
#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/models/gpt2.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "benchmark/benchmark.h"

namespace armature {
namespace {

constexpr int64_t kTokens = 512;

// One rank's model, and what it needs to run it.
class Rank {
 public:
  Rank(comm::Communicator& comm, int threads, bool sequence_parallel, int64_t samples) {
    CpuOptions cpu;
    cpu.threads = threads;
    backend_ = *MakeCpuBackend(cpu);
    Gpt2Config config = Gpt2Small();
    config.layers = 2;
    config.dropout = 0;
    const Model model = *MakeGpt2(config);
    ModuleBuilder::Shared shared;
    shared.registry = &registry_;
    shared.tensor_rank = comm.rank();
    shared.tensor_size = comm.size();
    shared.sequence_parallel = sequence_parallel;
    for (const BlockBuilder& build : model.blocks) blocks_.push_back(*build(ModuleBuilder(shared)));
    parameters_ = std::make_unique<TestParameters>(*backend_, registry_);
    std::vector<int32_t> ids(kTokens);
    for (int64_t i = 0; i < kTokens; ++i) ids[i] = static_cast<int32_t>(i * 7919 % config.vocabulary);
    const Tensor tokens =
        Tensor::FromHost<int32_t>(*backend_, {samples, kTokens / samples}, ids, DType::kI32);
    batch_.samples = samples;
    batch_.fields = {{"tokens", tokens}, {"targets", tokens}};
    options_.parameters = parameters_.get();
    options_.batch = &batch_;
    options_.training = true;
    options_.tensor.communicator = &comm;
    options_.tensor.sequence_parallel = sequence_parallel;
  }

  void Step() {
    Tape tape(*backend_);
    options_.tape = &tape;
    Context context(*backend_, options_);
    Activations activations;
    for (const auto& block : blocks_) activations = block->Forward(context, activations);
    EXPECT_THAT(tape.Backward(activations, {FromDoubles(*backend_, {}, {1.0 / kTokens})}), IsOk());
  }

 private:
  std::unique_ptr<Backend> backend_;
  ParameterRegistry registry_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::unique_ptr<TestParameters> parameters_;
  MicroBatch batch_;
  Context::Options options_;
};

// All ranks of a group; a step takes as long as the slowest.
class Group {
 public:
  Group(int size, int threads, bool sequence_parallel, int64_t samples)
      : comms_(*comm::MakeInprocGroup(size)) {
    for (const auto& comm : comms_)
      ranks_.push_back(std::make_unique<Rank>(*comm, threads, sequence_parallel, samples));
  }

  void Step() {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (size_t i = 1; i < ranks_.size(); ++i) threads.emplace_back([this, i] { ranks_[i]->Step(); });
    ranks_[0]->Step();
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    best_ = std::min(best_, passed.count());
  }
  // Seconds.
  double best() const { return best_; }

 private:
  const std::vector<std::unique_ptr<comm::Communicator>> comms_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  double best_ = std::numeric_limits<double>::infinity();
};

void BM_Gpt2OnTwoTensorRanks(benchmark::State& state) {
  const int64_t samples = state.range(0);
  Group alone(1, 2, false, samples), shared(2, 1, state.range(1) != 0, samples);
  for (auto _ : state) {
    alone.Step();
    shared.Step();
  }
  state.counters["one_rank_tokens_per_s"] = kTokens / alone.best();
  state.counters["ratio"] = alone.best() / shared.best();
}
BENCHMARK(BM_Gpt2OnTwoTensorRanks)
    ->ArgNames({"samples", "sequence_parallel"})
    ->ArgsProduct({{1, 4}, {0, 1}})
    ->Iterations(8)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace armature
