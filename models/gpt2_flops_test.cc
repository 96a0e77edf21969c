// The products that GPT-2's blocks say they cost against those that kernels are asked for.
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/layers/testing/test_parameters.h"
#include "armature/models/gpt2.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/cpu/cpu_stream.h"

namespace armature {
namespace {

class CountingStream : public CpuStream {
 public:
  CountingStream(ThreadTeam& team, const KernelTable& kernels) : CpuStream(team), kernels_(kernels) {}
  const KernelTable& kernels() const { return kernels_; }
  double flops = 0;

 private:
  const KernelTable& kernels_;
};

absl::Status CountedMatMul(Stream& stream, const MatMulArgs& args) {
  auto& counting = static_cast<CountingStream&>(stream);
  counting.flops += 2.0 * args.batch * args.m * args.n * args.k;
  return counting.kernels().matmul(stream, args);
}

// Two products of [q_len, dim] by [dim, kv_len], of which causality leaves half.
double AttentionFlops(const AttentionShape& shape) {
  return 4.0 * shape.batch * shape.heads * shape.q_len * shape.kv_len * shape.dim * (shape.causal ? 0.5 : 1);
}

absl::Status CountedAttention(Stream& stream, const AttentionArgs& args) {
  auto& counting = static_cast<CountingStream&>(stream);
  counting.flops += AttentionFlops(args.shape);
  return counting.kernels().attention(stream, args);
}

// The gradients of both products; that the kernel computes the scores a second time does not count.
absl::Status CountedAttentionBackward(Stream& stream, const AttentionBackwardArgs& args) {
  auto& counting = static_cast<CountingStream&>(stream);
  counting.flops += 2 * AttentionFlops(args.shape);
  return counting.kernels().attention_backward(stream, args);
}

// A CPU whose stream counts products.
class CountingBackend : public Backend {
 public:
  explicit CountingBackend(std::unique_ptr<Backend> inner)
      : inner_(std::move(inner)), kernels_(inner_->kernels()), stream_(team_, inner_->kernels()) {
    kernels_.matmul = CountedMatMul;
    kernels_.attention = CountedAttention;
    kernels_.attention_backward = CountedAttentionBackward;
  }
  Device device() const override { return inner_->device(); }
  Allocator& allocator() override { return inner_->allocator(); }
  Stream& compute_stream() override { return stream_; }
  const KernelTable& kernels() const override { return kernels_; }
  absl::Status Copy(const BufferView& to, const BufferView& from) override { return inner_->Copy(to, from); }

  double TakeFlops() {
    const double flops = stream_.flops;
    stream_.flops = 0;
    return flops;
  }

 private:
  const std::unique_ptr<Backend> inner_;
  ThreadTeam team_{1};
  KernelTable kernels_;
  CountingStream stream_;
};

TEST(Gpt2Flops, ABlocksCostIsWhatItsForwardAsksForAndHalfOfItsBackward) {
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Backend> cpu, MakeCpuBackend());
  CountingBackend backend(std::move(cpu));
  Gpt2Config config;
  config.vocabulary = 40;
  config.max_positions = 12;
  config.hidden = 24;
  config.layers = 1;
  config.heads = 3;
  ASSERT_OK_AND_ASSIGN(const Model model, MakeGpt2(config));
  ParameterRegistry registry;
  std::vector<std::unique_ptr<Block>> blocks;
  for (const BlockBuilder& build : model.blocks) {
    ModuleBuilder::Shared shared;
    shared.registry = &registry;
    shared.block = static_cast<int>(blocks.size());
    ASSERT_OK_AND_ASSIGN(auto block, build(ModuleBuilder(shared)));
    blocks.push_back(std::move(block));
  }
  TestParameters parameters(backend, registry);
  const int64_t samples = 3, positions = 10;
  MicroBatch batch;
  batch.samples = samples;
  for (const char* name : {"tokens", "targets"}) {
    batch.fields.emplace_back(
        name, Tensor::FromHost<int32_t>(backend, {samples, positions},
                                        std::vector<int32_t>(samples * positions, 5), DType::kI32));
  }
  Activations activations;
  for (const auto& block : blocks) {
    Tape tape(backend);
    Context::Options options;
    options.parameters = &parameters;
    options.batch = &batch;
    options.tape = &tape;
    Context context(backend, options);
    std::unique_ptr<GradientPlace> place;
    Activations in;
    for (const Tensor& tensor : activations) {
      place = std::make_unique<GradientPlace>(backend, tensor.shape());
      in.push_back(tape.Watch(tensor, place.get()));
    }
    const Activations out = block->Forward(context, in);
    ASSERT_THAT(out[0].status(), IsOk());
    const double cost = block->Cost(samples, positions).forward_flops;
    EXPECT_EQ(backend.TakeFlops(), cost);
    const std::vector<double> seed(out[0].num_elements(), 1);
    ASSERT_THAT(tape.Backward({out[0]}, {FromDoubles(backend, out[0].shape(), seed)}), IsOk());
    EXPECT_EQ(backend.TakeFlops(), 2 * cost);
    activations = {out[0].Detach()};
  }
}

}  // namespace
}  // namespace armature
