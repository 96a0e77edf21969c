#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/conformance.h"
#include "armature/tensor/cpu/cpu_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::Not;

using Floats = std::vector<float>;

// Separate tensors, contiguous.
AttentionShape Contiguous(int64_t batch, int64_t heads, int64_t kv_heads, int64_t q_len, int64_t kv_len,
                          int64_t dim) {
  AttentionShape shape;
  shape.batch = batch, shape.heads = heads, shape.kv_heads = kv_heads;
  shape.q_len = q_len, shape.kv_len = kv_len, shape.dim = dim;
  shape.q_stride = shape.out_stride = heads * dim;
  shape.k_stride = shape.v_stride = kv_heads * dim;
  shape.scale = 1 / std::sqrt(static_cast<double>(dim));
  return shape;
}

struct Inputs {
  explicit Inputs(const AttentionShape& shape)
      : q(TestValues(shape.batch * shape.q_len * shape.q_stride, 1)),
        k(TestValues(shape.batch * shape.kv_len * shape.k_stride, 2)),
        v(TestValues(shape.batch * shape.kv_len * shape.v_stride, 3)),
        dout(TestValues(shape.batch * shape.q_len * shape.out_stride, 4)) {}

  Floats q, k, v, dout;
};

// out, lse, dq, dk, dv. Where no result belongs stays 100.
struct Results {
  Results(const KernelTable& kernels, Stream& stream, const AttentionShape& shape, const Inputs& in)
      : out(in.dout.size(), 100),
        lse(shape.batch * shape.heads * shape.q_len, 100),
        dq(in.q.size(), 100),
        dk(in.k.size(), 100),
        dv(in.v.size(), 100) {
    AttentionArgs forward;
    forward.shape = shape;
    forward.q = in.q.data(), forward.k = in.k.data(), forward.v = in.v.data();
    forward.out = out.data(), forward.lse = lse.data();
    EXPECT_THAT(kernels.attention(stream, forward), IsOk());
    AttentionBackwardArgs backward;
    backward.shape = shape;
    backward.q = in.q.data(), backward.k = in.k.data(), backward.v = in.v.data();
    backward.out = out.data(), backward.lse = lse.data(), backward.dout = in.dout.data();
    backward.dq = dq.data(), backward.dk = dk.data(), backward.dv = dv.data();
    EXPECT_THAT(kernels.attention_backward(stream, backward), IsOk());
  }

  Floats All() const {
    Floats all = out;
    for (const Floats* part : {&lse, &dq, &dk, &dv}) all.insert(all.end(), part->begin(), part->end());
    return all;
  }

  Floats out, lse, dq, dk, dv;
};

void ExpectAttentionConforms(const AttentionShape& shape) {
  const Inputs in(shape);
  ExpectConforms(
      [&](const KernelTable& kernels, Stream& stream) { return Results(kernels, stream, shape, in).All(); },
      /*tolerance=*/1e-5);
}

std::vector<AttentionShape> OddShapes() {
  return {Contiguous(1, 1, 1, 1, 1, 1),     Contiguous(2, 3, 3, 5, 7, 4),   Contiguous(1, 2, 1, 70, 33, 16),
          Contiguous(1, 1, 1, 61, 150, 64), Contiguous(1, 1, 1, 3, 9, 130), Contiguous(1, 4, 2, 17, 17, 33),
          Contiguous(1, 1, 1, 130, 5, 8)};
}

TEST(Attention, ConformsToTheReference) {
  for (AttentionShape shape : OddShapes()) {
    for (const bool causal : {false, true}) {
      shape.causal = causal;
      ExpectAttentionConforms(shape);
    }
  }
}

// Enough work for several threads, and tiles of keys that some queries of a block see and others don't.
TEST(Attention, ConformsOverManyTiles) {
  for (int mask = 0; mask < 4; ++mask) {
    AttentionShape shape = Contiguous(2, 4, 2, 150, 300, 24);
    shape.causal = (mask & 1) != 0;
    shape.dropout = (mask & 2) != 0 ? 0.25 : 0;
    ExpectAttentionConforms(shape);
  }
}

TEST(Attention, NeitherQueriesNorKeysIsFine) {
  for (AttentionShape shape : {Contiguous(2, 2, 2, 0, 3, 4), Contiguous(2, 2, 1, 3, 0, 4)}) {
    for (const bool causal : {false, true}) {
      shape.causal = causal;
      ExpectAttentionConforms(shape);
    }
  }
}

TEST(Attention, KeepsSegmentsApart) {
  AttentionShape shape = Contiguous(2, 2, 1, 70, 70, 8);
  std::vector<int32_t> segments(2 * 70);
  for (int64_t i = 0; i < 140; ++i) segments[i] = static_cast<int32_t>(i % 70 / (i < 70 ? 9 : 33));
  std::vector<int32_t> unseen = segments;
  unseen[3] = 77;  // a query without a key, and a key without a query
  shape.q_segments = unseen.data();
  for (const bool causal : {false, true}) {
    shape.causal = causal;
    shape.kv_segments = segments.data();
    ExpectAttentionConforms(shape);
    unseen[100] = -1;
    shape.kv_segments = unseen.data();
    ExpectAttentionConforms(shape);
  }
}

TEST(Attention, DropsWhatTheRandomNumbersSay) {
  for (AttentionShape shape : OddShapes()) {
    for (const double dropout : {0.1, 0.5, 1.0}) {
      shape.dropout = dropout;
      shape.causal = dropout == 0.5;
      shape.random_key = MakeRandomKey(7, RandomPurpose::kDropout, 3, 11);
      shape.first_sample = 5;
      shape.head_offset = 2;
      ExpectAttentionConforms(shape);
    }
  }
}

// q, k and v of one position side by side, and room around.
TEST(Attention, ReadsAndWritesAFusedTensorInPlace) {
  AttentionShape shape = Contiguous(2, 4, 2, 20, 20, 8);
  const int64_t stride = (4 + 2 + 2) * 8 + 3;
  shape.q_stride = shape.k_stride = shape.v_stride = stride;
  shape.out_stride = 4 * 8 + 5;
  shape.causal = true;
  const Floats qkv = TestValues(2 * 20 * stride, 1), dout = TestValues(2 * 20 * shape.out_stride, 2);
  ExpectConforms(
      [&](const KernelTable& kernels, Stream& stream) {
        Floats out(dout.size(), 100), lse(2 * 4 * 20), dqkv(qkv.size(), 100);
        AttentionArgs forward;
        forward.shape = shape;
        forward.q = qkv.data(), forward.k = qkv.data() + 32, forward.v = qkv.data() + 48;
        forward.out = out.data(), forward.lse = lse.data();
        EXPECT_THAT(kernels.attention(stream, forward), IsOk());
        AttentionBackwardArgs backward;
        backward.shape = shape;
        backward.q = forward.q, backward.k = forward.k, backward.v = forward.v;
        backward.out = out.data(), backward.lse = lse.data(), backward.dout = dout.data();
        backward.dq = dqkv.data(), backward.dk = dqkv.data() + 32, backward.dv = dqkv.data() + 48;
        EXPECT_THAT(kernels.attention_backward(stream, backward), IsOk());
        out.insert(out.end(), dqkv.begin(), dqkv.end());
        return out;
      },
      /*tolerance=*/1e-5);
}

// Two queries, the second sees no key, and the loss is on the first only.
TEST(Attention, QueryWithoutKeysLeavesTheOthersAlone) {
  ThreadTeam team(1);
  CpuStream stream(team);
  AttentionShape two = Contiguous(1, 1, 1, 2, 3, 4), one = Contiguous(1, 1, 1, 1, 3, 4);
  const std::vector<int32_t> q_segments = {0, 1}, kv_segments = {0, 0, 0};
  two.q_segments = one.q_segments = q_segments.data();
  two.kv_segments = one.kv_segments = kv_segments.data();
  Inputs in(two);
  std::fill(in.dout.begin() + 4, in.dout.end(), 0.0f);
  Inputs first = in;
  first.q.resize(4), first.dout.resize(4);
  const Results with(CpuKernels(), stream, two, in), without(CpuKernels(), stream, one, first);
  EXPECT_THAT(Floats(with.out.begin() + 4, with.out.end()), Each(0));
  EXPECT_EQ(with.lse[1], -std::numeric_limits<float>::infinity());
  EXPECT_THAT(Floats(with.dq.begin() + 4, with.dq.end()), Each(0));
  EXPECT_EQ(Floats(with.dq.begin(), with.dq.begin() + 4), without.dq);
  EXPECT_EQ(with.dk, without.dk);
  EXPECT_EQ(with.dv, without.dv);
}

TEST(Attention, LargeScoresNeitherOverflowNorVanish) {
  AttentionShape shape = Contiguous(1, 1, 1, 40, 200, 16);
  shape.scale = 100;
  ThreadTeam team(1);
  CpuStream stream(team);
  const Results results(CpuKernels(), stream, shape, Inputs(shape));
  for (float value : results.All()) ASSERT_TRUE(std::isfinite(value));
  EXPECT_THAT(results.out, Each(Not(0)));
}

}  // namespace
}  // namespace armature
