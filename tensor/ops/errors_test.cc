// What does not fit is refused with the shapes and dtypes in the message, and never reaches a kernel.
#include <cmath>
#include <memory>
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

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class OpsErrors : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend()); }
  Tensor Make(const Shape& shape, DType dtype = DType::kF32) {
    return Tensor::Zeros(*backend_, shape, dtype, MemoryCategory::kOther);
  }
  template <typename... Parts>
  void ExpectInvalid(const Tensor& result, const Parts&... parts) {
    EXPECT_THAT(result.status(), StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr(parts)...)));
  }

  std::unique_ptr<Backend> backend_;
};

TEST_F(OpsErrors, Linear) {
  ExpectInvalid(ops::Linear(Make({2, 3}), Make({4, 5}), Tensor()), "Linear", "[2, 3]", "[4, 5]");
  ExpectInvalid(ops::Linear(Make({2, 3}), Make({3, 5}), Make({4})), "[3, 5]", "b [4]");
  ExpectInvalid(ops::Linear(Make({2, 3}), Make({3, 5}, DType::kBF16), Tensor()), "[2, 3] f32", "[3, 5] bf16");
  ExpectInvalid(ops::Linear(Make({2, 3}, DType::kI32), Make({3, 5}, DType::kI32), Tensor()), "i32");
  ExpectInvalid(ops::Linear(Make({}), Make({1, 5}), Tensor()), "x []", "[1, 5]");
  ops::LinearOptions options;
  options.weight_is_out_in = true;
  ExpectInvalid(ops::Linear(Make({2, 3}), Make({3, 5}), Tensor(), options), "[2, 3]", "[3, 5]", "[out, in]");
}

TEST_F(OpsErrors, Norms) {
  ExpectInvalid(ops::LayerNorm(Make({2, 3}), Make({4}), Make({4})), "LayerNorm", "[2, 3]", "weight [4]");
  ExpectInvalid(ops::LayerNorm(Make({2, 3}), Make({3}), Make({2})), "weight [3]", "bias [2]");
  ExpectInvalid(ops::LayerNorm(Make({2, 3}), Make({3}), Make({3}, DType::kBF16)), "bias [3] bf16");
  ExpectInvalid(ops::RmsNorm(Make({2, 3}), Make({3}, DType::kF64)), "RmsNorm", "[2, 3] f32", "[3] f64");
  ExpectInvalid(ops::RmsNorm(Make({}), Make({})), "x []");
}

TEST_F(OpsErrors, ActivationsAndSoftmax) {
  ExpectInvalid(ops::Activate(Make({2}, DType::kI32), Activation::kRelu), "Activate", "[2] i32");
  ExpectInvalid(ops::Softmax(Make({})), "Softmax", "[] f32");
  ExpectInvalid(ops::Softmax(Make({2}, DType::kI64)), "[2] i64");
}

TEST_F(OpsErrors, Attention) {
  ops::AttentionOptions options;
  options.heads = 4;
  const Tensor q = Make({2, 3, 4, 8});
  ExpectInvalid(ops::Attention(q, Make({2, 5, 4, 6}), Make({2, 5, 4, 6}), options), "Attention",
                "[2, 3, 4, 8]", "[2, 5, 4, 6]");
  ExpectInvalid(ops::Attention(q, Make({2, 5, 4, 8}), Make({2, 6, 4, 8}), options), "v [2, 6, 4, 8]");
  ExpectInvalid(ops::Attention(q, Make({1, 5, 4, 8}), Make({1, 5, 4, 8}), options), "k [1, 5, 4, 8]");
  ExpectInvalid(ops::Attention(q, q, Make({2, 3, 4, 8}, DType::kF16), options), "f32", "f16");
  options.kv_heads = 3;
  ExpectInvalid(ops::Attention(q, Make({2, 3, 3, 8}), Make({2, 3, 3, 8}), options), "4 heads, 3 key heads");
  options.kv_heads = 0;
  options.heads = 3;
  ExpectInvalid(ops::Attention(q, q, q, options), "3 heads");
  options.heads = 0;
  ExpectInvalid(ops::Attention(Make({2, 3, 0, 8}), Make({2, 3, 0, 8}), Make({2, 3, 0, 8}), options),
                "0 heads");
  ExpectInvalid(ops::SelfAttention(Make({2, 3, 12}), options), "SelfAttention", "[2, 3, 12]", "0 heads");
  options.heads = 5;
  ExpectInvalid(ops::SelfAttention(Make({2, 3, 12}), options), "[2, 3, 12]", "5 heads");
  options.heads = 1;
  ExpectInvalid(ops::SelfAttention(Make({3, 12}), options), "[3, 12]");
  ExpectInvalid(ops::SelfAttention(Make({2, 3, 12}, DType::kI32), options), "[2, 3, 12] i32");
}

TEST_F(OpsErrors, AttentionsSegmentsAndDropout) {
  const Tensor q = Make({2, 3, 1, 8});
  ops::AttentionOptions options;
  options.q_segments = Make({2, 3}, DType::kI32);
  ExpectInvalid(ops::Attention(q, q, q, options), "come together");
  options.kv_segments = Make({2, 4}, DType::kI32);
  ExpectInvalid(ops::Attention(q, q, q, options), "[2, 3]", "[2, 4]");
  options.kv_segments = Make({2, 3});
  ExpectInvalid(ops::Attention(q, q, q, options), "segments", "i32", "f32");
  options.kv_segments = Tensor::Failed(absl::DataLossError("lost"));
  EXPECT_THAT(ops::Attention(q, q, q, options).status(), StatusIs(absl::StatusCode::kDataLoss));
  options.q_segments = options.kv_segments = Tensor();
  for (double p : {-0.1, 1.5, std::nan("")}) {
    options.dropout = p;
    ExpectInvalid(ops::Attention(q, q, q, options), "dropout", "is not in [0, 1]");
  }
}

TEST_F(OpsErrors, Dropout) {
  RandomRegion region;
  region.rows = 3;
  region.cols = 4;
  const Tensor x = Make({2, 3, 4});
  ExpectInvalid(ops::Dropout(Make({2, 3, 5}), Tensor(), 0.5, region), "Dropout", "[2, 3, 5]", "3 x 4");
  ExpectInvalid(ops::Dropout(x, Make({2, 12}), 0.5, region), "[2, 3, 4]", "residual [2, 12]");
  ExpectInvalid(ops::Dropout(x, Make({2, 3, 4}, DType::kF16), 0.5, region), "f32", "f16");
  ExpectInvalid(ops::Dropout(Make({}), Tensor(), 0.5, region), "x []");
  ExpectInvalid(ops::Dropout(Make({2, 3, 4}, DType::kI32), Tensor(), 0, region), "i32");
  for (double p : {-0.1, 1.5, std::nan("")})
    ExpectInvalid(ops::Dropout(x, Tensor(), p, region), "p in [0, 1]");
}

TEST_F(OpsErrors, Embedding) {
  ExpectInvalid(ops::Embedding(Make({4}), Make({2}, DType::kI32)), "Embedding", "[4] f32", "[2] i32");
  ExpectInvalid(ops::Embedding(Make({4, 3}), Make({2}, DType::kI64)), "[4, 3] f32", "[2] i64");
  ExpectInvalid(ops::Embedding(Make({4, 3}, DType::kI32), Make({2}, DType::kI32)), "[4, 3] i32");
  ExpectInvalid(ops::Embedding(Make({4, 3}), Make({1, 1, 1, 1, 1, 1, 1, 1}, DType::kI32)), "[4, 3]");
}

TEST_F(OpsErrors, CrossEntropy) {
  const Tensor logits = Make({2, 5}), targets = Make({2}, DType::kI32);
  ExpectInvalid(ops::CrossEntropy(logits, Make({3}, DType::kI32)), "CrossEntropy", "[2, 5]", "[3] i32");
  ExpectInvalid(ops::CrossEntropy(logits, Make({2})), "[2] f32");
  ExpectInvalid(ops::CrossEntropy(Make({}), Make({}, DType::kI32)), "logits []");
  ops::CrossEntropyOptions options;
  for (int64_t classes : {-1, 6}) {
    options.classes = classes;
    ExpectInvalid(ops::CrossEntropy(logits, targets, options), "[2, 5]", "classes");
  }
  options.classes = 0;
  for (double smoothing : {-0.1, 1.0, std::nan("")}) {
    options.smoothing = smoothing;
    ExpectInvalid(ops::CrossEntropy(logits, targets, options), "smoothing");
  }
}

TEST_F(OpsErrors, Elementwise) {
  ExpectInvalid(ops::Add(Make({2, 3}), Make({3, 2})), "Add", "[2, 3]", "[3, 2]");
  ExpectInvalid(ops::Add(Make({2}), Make({2}, DType::kF64)), "[2] f32", "[2] f64");
  ExpectInvalid(ops::Multiply(Make({2}), Make({3})), "Multiply", "[2]", "[3]");
  ExpectInvalid(ops::AddBroadcast(Make({2, 3}), Make({2})), "AddBroadcast", "[2, 3]", "[2]");
  ExpectInvalid(ops::AddBroadcast(Make({3}), Make({2, 3})), "[3]", "[2, 3]");
  ExpectInvalid(ops::Scale(Make({2}, DType::kI32), 2), "Scale", "[2] i32", "float");
  ExpectInvalid(ops::Sum(Make({2}, DType::kBool)), "Sum", "[2] bool", "float");
  ExpectInvalid(ops::Cast(Make({2}, DType::kI32), DType::kF32), "Cast", "i32", "f32");
  EXPECT_THAT(ops::Slice(Make({2}), 1, 3).status(),
              StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("[2]")));
}

TEST_F(OpsErrors, AFailedInputsErrorComesOutOfEveryOperation) {
  const absl::Status why = absl::DataLossError("the first error");
  const Tensor bad = Tensor::Failed(why), x = Make({2, 2}), v = Make({2}), none;
  const RandomRegion region;
  const Tensor results[] = {ops::Linear(bad, x, none),
                            ops::Linear(x, bad, none),
                            ops::Linear(x, x, bad),
                            ops::LayerNorm(bad, v, none),
                            ops::LayerNorm(x, bad, none),
                            ops::LayerNorm(x, v, bad),
                            ops::RmsNorm(bad, v),
                            ops::Activate(bad, Activation::kRelu),
                            ops::Softmax(bad),
                            ops::Attention(x, x, bad, {}),
                            ops::SelfAttention(bad, {}),
                            ops::Dropout(bad, x, 0, region),
                            ops::Dropout(x, bad, 0, region),
                            ops::Embedding(bad, v),
                            ops::Embedding(x, bad),
                            ops::CrossEntropy(bad, v),
                            ops::CrossEntropy(x, bad),
                            ops::Add(bad, x),
                            ops::Add(x, bad),
                            ops::AddBroadcast(bad, v),
                            ops::AddBroadcast(x, bad),
                            ops::Scale(bad, 1),
                            ops::Multiply(x, bad),
                            ops::Sum(bad),
                            ops::Slice(bad, 0, 1),
                            ops::Cast(bad, DType::kF64)};
  for (const Tensor& result : results) EXPECT_EQ(result.status(), why);
}

TEST_F(OpsErrors, OutOfMemoryComesOutAsAFailedTensor) {
  CpuOptions options;
  options.memory_limit_bytes = 3 << 20;
  ASSERT_OK_AND_ASSIGN(const std::unique_ptr<Backend> small, MakeCpuBackend(options));
  {
    const Tensor x = Tensor::Zeros(*small, {512, 512}, DType::kF32, MemoryCategory::kOther),
                 w = Tensor::Zeros(*small, {512}, DType::kF32, MemoryCategory::kOther);
    const Tensor y = ops::Scale(ops::LayerNorm(ops::Linear(x, x, w), w, w), 2);
    EXPECT_THAT(y.status(), StatusIs(absl::StatusCode::kResourceExhausted));
  }
  EXPECT_EQ(small->allocator().total().live_bytes, 0);
}

}  // namespace
}  // namespace armature
