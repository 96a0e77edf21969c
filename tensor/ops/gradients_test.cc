// Every operation's backward against differences of its forward in f64.
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/activation.h"
#include "armature/tensor/ops/attention.h"
#include "armature/tensor/ops/dropout.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/embedding.h"
#include "armature/tensor/ops/linear.h"
#include "armature/tensor/ops/loss.h"
#include "armature/tensor/ops/norm.h"
#include "armature/tensor/testing/gradient_check.h"

namespace armature {
namespace {

using In = const std::vector<Tensor>&;

Tensor Ids(Backend& backend, const Shape& shape, const std::vector<int32_t>& ids) {
  return Tensor::FromHost<int32_t>(backend, shape, ids, DType::kI32);
}

TEST(Gradients, Linear) {
  for (Activation activation :
       {Activation::kNone, Activation::kGeluErf, Activation::kGeluTanh, Activation::kSilu}) {
    ops::LinearOptions options;
    options.activation = activation;
    ExpectGradients({{2, 3, 5}, {5, 4}, {4}},
                    [&](In in) { return ops::Linear(in[0], in[1], in[2], options); });
    ExpectGradients({{3, 5}, {5, 4}}, [&](In in) { return ops::Linear(in[0], in[1], Tensor(), options); });
    options.weight_is_out_in = true;
    ExpectGradients({{7, 5}, {4, 5}, {4}}, [&](In in) { return ops::Linear(in[0], in[1], in[2], options); });
  }
}

TEST(Gradients, Norms) {
  ExpectGradients({{3, 7}, {7}, {7}}, [](In in) { return ops::LayerNorm(in[0], in[1], in[2]); });
  ExpectGradients({{2, 2, 5}, {5}}, [](In in) { return ops::LayerNorm(in[0], in[1], Tensor(), 1e-2); });
  ExpectGradients({{3, 7}, {7}}, [](In in) { return ops::RmsNorm(in[0], in[1]); });
}

TEST(Gradients, ActivationsAndSoftmax) {
  for (Activation activation :
       {Activation::kGeluErf, Activation::kGeluTanh, Activation::kSilu, Activation::kRelu}) {
    ExpectGradients({{3, 5}}, [&](In in) { return ops::Activate(in[0], activation); });
  }
  ExpectGradients({{4, 6}}, [](In in) { return ops::Softmax(in[0]); });
}

TEST(Gradients, Attention) {
  for (bool causal : {false, true}) {
    for (double dropout : {0.0, 0.3}) {
      ops::AttentionOptions options;
      options.heads = 4;
      options.kv_heads = 2;
      options.causal = causal;
      options.dropout = dropout;
      options.random_key = MakeRandomKey(5, RandomPurpose::kDropout, 1, 2);
      ExpectGradients({{2, 3, 4, 3}, {2, 5, 2, 3}, {2, 5, 2, 3}},
                      [&](In in) { return ops::Attention(in[0], in[1], in[2], options); });
      ExpectGradients({{2, 4, (4 + 2 * 2) * 3}}, [&](In in) { return ops::SelfAttention(in[0], options); });
    }
  }
}

TEST(Gradients, AttentionWithSegmentsAndAQueryWithoutKeys) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, MakeCpuBackend());
  ops::AttentionOptions options;
  options.heads = 2;
  options.q_segments = Ids(*backend, {1, 3}, {0, 1, 7});
  options.kv_segments = Ids(*backend, {1, 3}, {0, 1, 1});
  ExpectGradients({{1, 3, 2, 2}, {1, 3, 2, 2}, {1, 3, 2, 2}},
                  [&](In in) { return ops::Attention(in[0], in[1], in[2], options); });
}

TEST(Gradients, EmbeddingWithRepeatedAndForeignRows) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, MakeCpuBackend());
  const Tensor ids = Ids(*backend, {2, 3}, {4, 6, 4, 5, 0, 6});
  ExpectGradients({{5, 3}}, [&](In in) { return ops::Embedding(in[0], ids, /*first_row=*/3); });
}

TEST(Gradients, Dropout) {
  RandomRegion region;
  region.key = MakeRandomKey(1, RandomPurpose::kDropout, 1, 1);
  region.rows = 3;
  region.cols = region.global_cols = 5;
  ExpectGradients({{2, 3, 5}, {2, 3, 5}}, [&](In in) { return ops::Dropout(in[0], in[1], 0.4, region); });
  ExpectGradients({{2, 3, 5}}, [&](In in) { return ops::Dropout(in[0], Tensor(), 0.4, region); });
  ExpectGradients({{2, 3, 5}, {2, 3, 5}}, [&](In in) { return ops::Dropout(in[0], in[1], 0, region); });
}

TEST(Gradients, CrossEntropy) {
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> backend, MakeCpuBackend());
  const Tensor targets = Ids(*backend, {2, 2}, {1, kIgnoredTarget, 3, 0});
  for (double smoothing : {0.0, 0.1}) {
    ops::CrossEntropyOptions options;
    options.smoothing = smoothing;
    options.classes = 5;
    ExpectGradients({{2, 2, 6}}, [&](In in) { return ops::CrossEntropy(in[0], targets, options); });
  }
}

TEST(Gradients, ElementwiseAndSums) {
  ExpectGradients({{3, 4}, {3, 4}}, [](In in) { return ops::Add(in[0], in[1]); });
  ExpectGradients({{2, 3, 4}, {3, 4}}, [](In in) { return ops::AddBroadcast(in[0], in[1]); });
  ExpectGradients({{3, 4}}, [](In in) { return ops::Scale(in[0], -1.5); });
  ExpectGradients({{3, 4}, {3, 4}}, [](In in) { return ops::Multiply(in[0], in[1]); });
  ExpectGradients({{3, 4}}, [](In in) { return ops::Sum(in[0]); });
  ExpectGradients({{5, 2}}, [](In in) { return ops::Slice(in[0], 1, 4); });
  ExpectGradients({{3, 4}}, [](In in) { return in[0].Reshape({2, 6}); });
}

// One value used in many ways: its gradients add up, also where an operation handed on a shared one.
TEST(Gradients, AValueThatIsUsedSeveralTimes) {
  ExpectGradients({{3, 4}}, [](In in) { return ops::Multiply(in[0], in[0]); });
  ExpectGradients({{3, 4}}, [](In in) { return ops::Add(in[0], in[0]); });
  ExpectGradients({{3, 4}, {4, 4}, {4}}, [](In in) {
    // A residual stream: the sum's gradient is shared by both branches, then added to in one of them.
    const Tensor x = ops::Scale(in[0], 2);
    const Tensor y = ops::Add(x, ops::Linear(ops::LayerNorm(x, in[2], Tensor()), in[1], in[2]));
    return ops::Add(y, ops::Linear(ops::LayerNorm(y, in[2], Tensor()), in[1], in[2]));
  });
  ExpectGradients({{3, 7}, {7}}, [](In in) { return ops::LayerNorm(in[0], in[1], in[1]); });
  ExpectGradients({{3, 7}, {7}}, [](In in) {
    const Tensor twice = ops::Scale(in[1], 2);
    return ops::LayerNorm(in[0], twice, twice);
  });
  ExpectGradients({{7}}, [](In in) {
    const Tensor twice = ops::Scale(in[0], 2);
    return ops::LayerNorm(twice, twice, in[0]);
  });
  ExpectGradients({{4, 4}}, [](In in) { return ops::Linear(in[0], in[0], Tensor()); });
  ExpectGradients({{1, 3, 2, 2}}, [](In in) {
    ops::AttentionOptions options;
    options.heads = 2;
    const Tensor x = ops::Scale(in[0], 2);
    return ops::Attention(x, x, x, options);
  });
  ExpectGradients({{6, 4}}, [](In in) {
    return ops::Add(ops::Slice(in[0], 0, 3), ops::Multiply(ops::Slice(in[0], 2, 5), ops::Slice(in[0], 3, 6)));
  });
}

}  // namespace
}  // namespace armature
