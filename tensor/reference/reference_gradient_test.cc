// Every backward kernel against the exact derivatives of its forward formula, which dual numbers give.
#include <cmath>
#include <functional>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/reference/activation.h"
#include "armature/tensor/reference/attention.h"
#include "armature/tensor/reference/dropout.h"
#include "armature/tensor/reference/dual.h"
#include "armature/tensor/reference/elementwise.h"
#include "armature/tensor/reference/embedding.h"
#include "armature/tensor/reference/loss.h"
#include "armature/tensor/reference/norm.h"
#include "armature/tensor/reference/reference_kernels.h"
#include "armature/tensor/reference/softmax.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using Numbers = std::vector<double>;
using Duals = std::vector<Dual>;

constexpr double kTolerance = 1e-12;

Numbers Random(int64_t count, uint64_t seed) {
  const RandomKey key = MakeRandomKey(seed, RandomPurpose::kInitialize, 0, 0);
  Numbers numbers(count);
  for (int64_t i = 0; i < count; ++i) numbers[i] = NormalFloat(key, i);
  return numbers;
}

Duals AsDuals(const Numbers& numbers) { return Duals(numbers.begin(), numbers.end()); }

// The gradient of sum(dout * forward(input)) with respect to each input: one run of `forward` an input.
Numbers ExactGradient(const Numbers& input, const Numbers& dout,
                      const std::function<Duals(const Duals&)>& forward) {
  Numbers gradient(input.size());
  Duals seeded = AsDuals(input);
  for (size_t i = 0; i < input.size(); ++i) {
    seeded[i].derivative = 1;
    const Duals out = forward(seeded);
    for (size_t j = 0; j < out.size(); ++j) gradient[i] += dout[j] * out[j].derivative;
    seeded[i].derivative = 0;
  }
  return gradient;
}

// ||a - b|| / ||b||.
double RelativeError(const Numbers& a, const Numbers& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

template <typename Args>
void Call(absl::Status (*kernel)(Stream&, const Args&), const Args& args) {
  ThreadTeam team(1);
  CpuStream stream(team);
  ASSERT_THAT(kernel(stream, args), IsOk());
}

const KernelTable& Table() { return ReferenceKernels(); }

TEST(ActivationGradient, IsExact) {
  for (Activation activation : {Activation::kNone, Activation::kGeluErf, Activation::kGeluTanh,
                                Activation::kSilu, Activation::kRelu}) {
    const Numbers x = Random(37, 1), dy = Random(37, 2);
    Numbers dx(37);
    ActivationBackwardArgs args;
    args.pre = x.data();
    args.dy = dy.data();
    args.dx = dx.data();
    args.count = 37;
    args.activation = activation;
    args.dtype = DType::kF64;
    Call(Table().activation_backward, args);
    const Numbers exact = ExactGradient(x, dy, [&](const Duals& in) {
      Duals y(37);
      BiasActivationArgs forward;
      forward.x = in.data();
      forward.y = y.data();
      forward.rows = 1;
      forward.cols = 37;
      forward.activation = activation;
      reference::BiasActivation<Dual>(forward);
      return y;
    });
    EXPECT_LT(RelativeError(dx, exact), kTolerance) << static_cast<int>(activation);
  }
}

TEST(ColumnSum, IsTheGradientOfABias) {
  const Numbers x = Random(5 * 7, 1), bias = Random(7, 2), dy = Random(5 * 7, 3);
  Numbers dbias(7);
  ColumnSumArgs args;
  args.x = dy.data();
  args.out = dbias.data();
  args.rows = 5;
  args.cols = 7;
  args.dtype = args.out_dtype = DType::kF64;
  Call(Table().column_sum, args);
  const Duals fixed = AsDuals(x);
  const Numbers exact = ExactGradient(bias, dy, [&](const Duals& in) {
    Duals y(5 * 7);
    BiasActivationArgs forward;
    forward.x = fixed.data();
    forward.bias = in.data();
    forward.y = y.data();
    forward.rows = 5;
    forward.cols = 7;
    reference::BiasActivation<Dual>(forward);
    return y;
  });
  EXPECT_LT(RelativeError(dbias, exact), kTolerance);
}

// x, weight and bias in one vector, so that one gradient covers all.
struct NormCase {
  int64_t rows, cols;
  bool rms;

  Duals Forward(const Duals& in) const {
    Duals y(rows * cols), mean(rows), rstd(rows);
    NormArgs args;
    args.x = in.data();
    args.weight = in.data() + rows * cols;
    args.bias = rms ? nullptr : in.data() + rows * cols + cols;
    args.y = y.data();
    args.mean = rms ? nullptr : mean.data();
    args.rstd = rstd.data();
    args.rows = rows;
    args.cols = cols;
    rms ? reference::RmsNorm<Dual>(args) : reference::LayerNorm<Dual>(args);
    return y;
  }

  Numbers Backward(const Numbers& in, const Numbers& dy) const {
    Numbers y(rows * cols), mean(rows), rstd(rows);
    NormArgs forward;
    forward.x = in.data();
    forward.weight = in.data() + rows * cols;
    forward.bias = rms ? nullptr : in.data() + rows * cols + cols;
    forward.y = y.data();
    forward.mean = rms ? nullptr : mean.data();
    forward.rstd = rstd.data();
    forward.rows = rows;
    forward.cols = cols;
    forward.dtype = DType::kF64;
    Call(rms ? Table().rms_norm : Table().layer_norm, forward);

    Numbers gradient(in.size());
    NormBackwardArgs args;
    args.dy = dy.data();
    args.x = in.data();
    args.weight = forward.weight;
    args.mean = forward.mean;
    args.rstd = rstd.data();
    args.dx = gradient.data();
    args.dweight = gradient.data() + rows * cols;
    args.dbias = rms ? nullptr : gradient.data() + rows * cols + cols;
    args.rows = rows;
    args.cols = cols;
    args.dtype = args.parameter_grad_dtype = DType::kF64;
    Call(rms ? Table().rms_norm_backward : Table().layer_norm_backward, args);
    return gradient;
  }
};

TEST(NormGradient, IsExactForDataWeightAndBias) {
  for (bool rms : {false, true}) {
    for (int64_t rows : {1, 4}) {
      for (int64_t cols : {1, 3, 17}) {
        if (!rms && cols == 1) continue;  // the output is the bias: the gradient of x is 0 up to rounding
        const NormCase norm{rows, cols, rms};
        const Numbers in = Random(rows * cols + (rms ? 1 : 2) * cols, 1), dy = Random(rows * cols, 2);
        const Numbers exact = ExactGradient(in, dy, [&](const Duals& x) { return norm.Forward(x); });
        EXPECT_LT(RelativeError(norm.Backward(in, dy), exact), kTolerance) << rows << " x " << cols;
      }
    }
  }
}

TEST(SoftmaxGradient, IsExact) {
  const int64_t rows = 3, cols = 7, count = rows * cols;
  const Numbers x = Random(count, 1), dy = Random(count, 2);
  Numbers y(count), dx(count);
  SoftmaxArgs forward;
  forward.x = x.data();
  forward.y = y.data();
  forward.rows = rows;
  forward.cols = cols;
  forward.dtype = DType::kF64;
  Call(Table().softmax, forward);
  SoftmaxBackwardArgs args;
  args.y = y.data();
  args.dy = dy.data();
  args.dx = dx.data();
  args.rows = rows;
  args.cols = cols;
  args.dtype = DType::kF64;
  Call(Table().softmax_backward, args);
  const Numbers exact = ExactGradient(x, dy, [&](const Duals& in) {
    Duals out(count);
    SoftmaxArgs dual = forward;
    dual.x = in.data();
    dual.y = out.data();
    reference::Softmax<Dual>(dual);
    return out;
  });
  EXPECT_LT(RelativeError(dx, exact), kTolerance);
}

TEST(CrossEntropyGradient, IsExactWithSmoothingPaddingAndIgnoredTargets) {
  const int64_t rows = 4, stride = 9;
  const std::vector<int32_t> targets = {2, kIgnoredTarget, 0, 6};
  for (double smoothing : {0.0, 0.1}) {
    for (int64_t classes : {7, 9}) {
      const Numbers logits = Random(rows * stride, 1), dloss = {0.75};
      CrossEntropyArgs forward;
      forward.targets = targets.data();
      forward.rows = rows;
      forward.classes = classes;
      forward.stride = stride;
      forward.smoothing = smoothing;
      forward.dtype = DType::kF64;
      Numbers losses(rows), lse(rows), dlogits(rows * stride);
      CrossEntropyArgs real = forward;
      real.logits = logits.data();
      real.losses = losses.data();
      real.lse = lse.data();
      Call(Table().cross_entropy, real);

      CrossEntropyBackwardArgs args;
      args.logits = logits.data();
      args.targets = targets.data();
      args.lse = lse.data();
      args.dloss = dloss.data();
      args.dlogits = dlogits.data();
      args.rows = rows;
      args.classes = classes;
      args.stride = stride;
      args.smoothing = smoothing;
      args.dtype = DType::kF64;
      Call(Table().cross_entropy_backward, args);
      const Numbers exact = ExactGradient(logits, Numbers(rows, dloss[0]), [&](const Duals& in) {
        Duals out(rows), lse_out(rows);
        CrossEntropyArgs dual = forward;
        dual.logits = in.data();
        dual.losses = out.data();
        dual.lse = lse_out.data();
        reference::CrossEntropy<Dual>(dual);
        return out;
      });
      EXPECT_LT(RelativeError(dlogits, exact), kTolerance)
          << "smoothing " << smoothing << " classes " << classes;
    }
  }
}

TEST(EmbeddingGradient, AddsUpRepeatedRowsAndSkipsOtherRanksRows) {
  const int64_t rows = 4, cols = 3;
  const std::vector<int32_t> ids = {12, 10, 13, 12, 9, 14};  // the table holds rows 10 to 13
  const int64_t count = static_cast<int64_t>(ids.size());
  const Numbers table = Random(rows * cols, 1), dout = Random(count * cols, 2);
  Numbers dtable(rows * cols, 5);
  EmbeddingBackwardArgs args;
  args.dout = dout.data();
  args.ids = ids.data();
  args.dtable = dtable.data();
  args.count = count;
  args.rows = rows;
  args.cols = cols;
  args.first_row = 10;
  args.dtype = args.table_grad_dtype = DType::kF64;
  Call(Table().embedding_backward, args);
  const Numbers exact = ExactGradient(table, dout, [&](const Duals& in) {
    Duals out(count * cols);
    EmbeddingArgs forward;
    forward.table = in.data();
    forward.ids = ids.data();
    forward.out = out.data();
    forward.count = count;
    forward.rows = rows;
    forward.cols = cols;
    forward.first_row = 10;
    reference::Embedding<Dual>(forward);
    return out;
  });
  EXPECT_LT(RelativeError(dtable, exact), kTolerance);
}

TEST(DropoutGradient, IsDropoutWithTheSameRegion) {
  const int64_t count = 2 * 3 * 5;
  const Numbers x = Random(count, 1), dy = Random(count, 2);
  Numbers dx(count);
  DropoutArgs args;
  args.x = dy.data();
  args.y = dx.data();
  args.samples = 2;
  args.p = 0.4;
  args.region.key = MakeRandomKey(1, RandomPurpose::kDropout, 2, 3);
  args.region.rows = 3;
  args.region.cols = 5;
  args.region.global_cols = 5;
  args.dtype = DType::kF64;
  Call(Table().dropout, args);
  const Numbers exact = ExactGradient(x, dy, [&](const Duals& in) {
    Duals y(count);
    DropoutArgs forward = args;
    forward.x = in.data();
    forward.y = y.data();
    reference::Dropout<Dual>(forward);
    return y;
  });
  EXPECT_LT(RelativeError(dx, exact), kTolerance);
}

// q, k and v lie in one vector, one after the other, with gaps between positions.
struct AttentionCase {
  AttentionShape shape;

  int64_t q_size() const { return shape.batch * shape.q_len * shape.q_stride; }
  int64_t k_size() const { return shape.batch * shape.kv_len * shape.k_stride; }
  int64_t v_size() const { return shape.batch * shape.kv_len * shape.v_stride; }
  int64_t in_size() const { return q_size() + k_size() + v_size(); }
  int64_t out_size() const { return shape.batch * shape.q_len * shape.out_stride; }
  int64_t lse_size() const { return shape.batch * shape.heads * shape.q_len; }

  template <typename T>
  AttentionArgs Arguments(const std::vector<T>& in, std::vector<T>& out, std::vector<T>& lse) const {
    AttentionArgs args;
    args.shape = shape;
    args.q = in.data();
    args.k = in.data() + q_size();
    args.v = in.data() + q_size() + k_size();
    args.out = out.data();
    args.lse = lse.data();
    return args;
  }

  Numbers Backward(const Numbers& in, const Numbers& dout) const {
    Numbers out(out_size()), lse(lse_size()), gradient(in_size());
    const AttentionArgs forward = Arguments(in, out, lse);
    Call(Table().attention, forward);
    AttentionBackwardArgs args;
    args.shape = shape;
    args.q = forward.q;
    args.k = forward.k;
    args.v = forward.v;
    args.out = out.data();
    args.lse = lse.data();
    args.dout = dout.data();
    args.dq = gradient.data();
    args.dk = gradient.data() + q_size();
    args.dv = gradient.data() + q_size() + k_size();
    Call(Table().attention_backward, args);
    return gradient;
  }

  void ExpectExact() const {
    const Numbers in = Random(in_size(), 1), dout = Random(out_size(), 2);
    const Numbers exact = ExactGradient(in, dout, [&](const Duals& x) {
      Duals out(out_size()), lse(lse_size());
      reference::Attention<Dual>(Arguments(x, out, lse));
      return out;
    });
    EXPECT_LT(RelativeError(Backward(in, dout), exact), kTolerance);
  }
};

AttentionCase MakeAttention(int64_t heads, int64_t kv_heads, int64_t q_len, int64_t kv_len) {
  AttentionCase attention;
  AttentionShape& shape = attention.shape;
  shape.batch = 2;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.q_len = q_len;
  shape.kv_len = kv_len;
  shape.dim = 3;
  shape.q_stride = heads * 3 + 1;
  shape.k_stride = kv_heads * 3 + 2;
  shape.v_stride = kv_heads * 3;
  shape.out_stride = heads * 3;
  shape.scale = 0.6;
  shape.dtype = DType::kF64;
  return attention;
}

TEST(AttentionGradient, IsExactWithoutMasks) { MakeAttention(2, 2, 3, 5).ExpectExact(); }

TEST(AttentionGradient, IsExactWhenCausal) {
  for (int64_t q_len : {1, 3, 5}) {
    AttentionCase attention = MakeAttention(2, 2, q_len, 5);
    attention.shape.causal = true;
    attention.ExpectExact();
  }
}

TEST(AttentionGradient, IsExactWhenTheFirstQueriesSeeNoKey) {
  AttentionCase attention = MakeAttention(1, 1, 5, 3);
  attention.shape.causal = true;
  attention.ExpectExact();
}

TEST(AttentionGradient, IsExactForGroupedQueries) {
  AttentionCase attention = MakeAttention(4, 2, 3, 3);
  attention.shape.causal = true;
  attention.ExpectExact();
}

TEST(AttentionGradient, IsExactWithSegments) {
  const std::vector<int32_t> q_segments = {0, 0, 1, 1, 7, 2}, kv_segments = {0, 1, 1, 2, 2, 2};
  AttentionCase attention = MakeAttention(2, 1, 3, 3);
  attention.shape.q_segments = q_segments.data();
  attention.shape.kv_segments = kv_segments.data();
  for (bool causal : {false, true}) {
    attention.shape.causal = causal;
    attention.ExpectExact();
  }
}

TEST(AttentionGradient, IsExactWithDropout) {
  AttentionCase attention = MakeAttention(2, 2, 4, 4);
  attention.shape.dropout = 0.3;
  attention.shape.random_key = MakeRandomKey(1, RandomPurpose::kDropout, 2, 3);
  attention.shape.first_sample = 5;
  attention.shape.head_offset = 2;
  attention.ExpectExact();
  attention.shape.causal = true;
  attention.ExpectExact();
}

}  // namespace
}  // namespace armature
