// Every operation in bf16 and f16 against f64, forward and backward. A leaf's gradient may have a wider dtype
// than the leaf, as f32 for a bf16 weight: it must be written in the place's dtype, and memory around the
// place left alone.
#include <functional>
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
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::DoubleNear;
using ::testing::Pointwise;
using In = const std::vector<Tensor>&;
using Operation = std::function<Tensor(In)>;

class HalfPrecision : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend()); }

  Tensor Value(const Shape& shape, int which, DType dtype) {
    std::vector<double> values;
    // Multiples of 1/16: exact in bf16 and f16.
    for (int64_t i = 0; i < shape.num_elements(); ++i)
      values.push_back(((i * 7 + which * 5) % 23 - 11) / 16.0);
    return FromDoubles(*backend_, shape, values, dtype);
  }
  // The result, and the gradients of two walks, the second of which adds to what the first wrote.
  std::vector<std::vector<double>> ResultAndGradients(const std::vector<Shape>& shapes,
                                                      const Operation& operation, DType dtype) {
    std::vector<std::unique_ptr<GradientPlace>> places;
    for (const Shape& shape : shapes) {
      places.push_back(
          std::make_unique<GradientPlace>(*backend_, shape, dtype == DType::kF64 ? dtype : DType::kF32));
    }
    std::vector<std::vector<double>> results;
    for (int walk = 0; walk < 2; ++walk) {
      Tape tape(*backend_);
      std::vector<Tensor> leaves, memory;
      for (size_t i = 0; i < shapes.size(); ++i) {
        memory.push_back(Value(shapes[i], static_cast<int>(i), dtype));
        leaves.push_back(tape.Watch(memory[i], places[i].get()));
      }
      const Tensor y = operation(leaves);
      EXPECT_THAT(y.status(), IsOk());
      if (!y.ok()) return {};
      if (walk == 0) results.push_back(ToDoubles(y.Detach()));
      EXPECT_THAT(tape.Backward({y}, {Value(y.shape(), 9, y.dtype())}), IsOk());
    }
    for (const auto& place : places) results.push_back(place->Values());
    return results;
  }
  void Expect(const std::vector<Shape>& shapes, const Operation& operation) {
    const auto exact = ResultAndGradients(shapes, operation, DType::kF64);
    for (const auto& [dtype, tolerance] : {std::pair(DType::kBF16, 0.06), std::pair(DType::kF16, 0.01)}) {
      const auto rounded = ResultAndGradients(shapes, operation, dtype);
      ASSERT_EQ(rounded.size(), exact.size());
      for (size_t i = 0; i < exact.size(); ++i) {
        EXPECT_THAT(rounded[i], Pointwise(DoubleNear(tolerance), exact[i]))
            << Name(dtype) << (i == 0 ? ", result" : ", gradient ") << i;
      }
    }
  }

  std::unique_ptr<Backend> backend_;
};

TEST_F(HalfPrecision, Linear) {
  ops::LinearOptions options;
  Expect({{3, 5}, {5, 4}, {4}}, [&](In in) { return ops::Linear(in[0], in[1], in[2], options); });
  options.activation = Activation::kGeluTanh;
  options.weight_is_out_in = true;
  Expect({{3, 5}, {4, 5}, {4}}, [&](In in) { return ops::Linear(in[0], in[1], in[2], options); });
}

TEST_F(HalfPrecision, Norms) {
  Expect({{3, 8}, {8}, {8}}, [](In in) { return ops::LayerNorm(in[0], in[1], in[2]); });
  Expect({{3, 8}, {8}}, [](In in) { return ops::RmsNorm(in[0], in[1]); });
  // The weight's gradient goes to its wide place, the bias's to the narrow one of a value on the tape.
  Expect({{3, 8}, {8}, {8}}, [](In in) { return ops::LayerNorm(in[0], in[1], ops::Scale(in[2], 2)); });
  Expect({{3, 8}, {8}, {8}}, [](In in) { return ops::LayerNorm(in[0], ops::Scale(in[1], 2), in[2]); });
}

TEST_F(HalfPrecision, ActivationsAndSoftmax) {
  Expect({{3, 5}}, [](In in) { return ops::Activate(in[0], Activation::kSilu); });
  Expect({{3, 5}}, [](In in) { return ops::Softmax(in[0]); });
}

TEST_F(HalfPrecision, Attention) {
  ops::AttentionOptions options;
  options.heads = 2;
  Expect({{1, 3, 2, 2}, {1, 4, 2, 2}, {1, 4, 2, 2}},
         [&](In in) { return ops::Attention(in[0], in[1], in[2], options); });
}

TEST_F(HalfPrecision, EmbeddingAndLoss) {
  const Tensor ids = Tensor::FromHost<int32_t>(*backend_, {4}, std::vector<int32_t>{1, 3, 1, 0}, DType::kI32);
  Expect({{4, 3}}, [&](In in) { return ops::Embedding(in[0], ids); });
  Expect({{4, 5}}, [&](In in) { return ops::CrossEntropy(in[0], ids); });
}

TEST_F(HalfPrecision, Dropout) {
  RandomRegion region;
  region.cols = region.global_cols = 5;
  Expect({{3, 5}, {3, 5}}, [&](In in) { return ops::Dropout(in[0], in[1], 0.5, region); });
}

TEST_F(HalfPrecision, Elementwise) {
  Expect({{3, 4}, {3, 4}}, [](In in) { return ops::Add(in[0], in[1]); });
  Expect({{2, 3, 4}, {3, 4}}, [](In in) { return ops::AddBroadcast(in[0], in[1]); });
  Expect({{3, 4}, {3, 4}}, [](In in) { return ops::Multiply(in[0], in[1]); });
  Expect({{3, 4}}, [](In in) { return ops::Multiply(in[0], in[0]); });
  Expect({{3, 4}}, [](In in) { return ops::Scale(in[0], 0.5); });
  Expect({{3, 4}}, [](In in) { return ops::Sum(in[0]); });
  Expect({{5, 2}}, [](In in) { return ops::Slice(in[0], 1, 4); });
}

}  // namespace
}  // namespace armature
