// Single operations, forward and backward, against values recorded from PyTorch (testdata/goldens/README.md).
#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "armature/base/posix_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/checkpoint/weights_file.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/ops/activation.h"
#include "armature/tensor/ops/attention.h"
#include "armature/tensor/ops/elementwise.h"
#include "armature/tensor/ops/linear.h"
#include "armature/tensor/ops/loss.h"
#include "armature/tensor/ops/norm.h"
#include "armature/tensor/tape.h"

namespace armature {
namespace {

constexpr double kTolerance = 1e-5;

// Recorded operations that are not built, each named so that none is forgotten.
const char* const kNotBuilt[] = {"batch_norm", "conv2d", "max_pool2d"};

class Place : public GradientTarget {
 public:
  explicit Place(Tensor place) : place_(std::move(place)) {}
  GradientSlot Slot() override { return {place_, false}; }
  void Contributed() override {}
  const Tensor& place() const { return place_; }

 private:
  const Tensor place_;
};

class GoldenOps : public ::testing::Test {
 protected:
  static constexpr char kPath[] = "tests/testdata/goldens/ops.safetensors";

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(arrays_, ReadSafetensors(files_, kPath));
    CpuOptions options;
    options.threads = 2;
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend(options));
  }

  NamedArray Array(const std::string& name) {
    absl::StatusOr<NamedArray> array = arrays_.Find(name);
    EXPECT_THAT(array, IsOk());
    return *array;
  }
  std::vector<float> Floats(const std::string& name) {
    const NamedArray array = Array(name);
    std::vector<float> values(array.shape.num_elements());
    std::memcpy(values.data(), array.bytes.data(), array.bytes.size());
    return values;
  }
  // [batch, heads, positions, dim] to [batch, positions, heads, dim], or back.
  static std::vector<float> SwapMiddle(const std::vector<float>& in, const Shape& shape) {
    std::vector<float> out(in.size());
    const int64_t a = shape.dim(1), b = shape.dim(2), dim = shape.dim(3);
    for (int64_t s = 0; s < shape.dim(0); ++s)
      for (int64_t i = 0; i < a; ++i)
        for (int64_t j = 0; j < b; ++j)
          std::memcpy(&out[((s * b + j) * a + i) * dim], &in[((s * a + i) * b + j) * dim],
                      dim * sizeof(float));
    return out;
  }
  Tensor Load(const std::string& name, bool heads_first) {
    const NamedArray array = Array(name);
    const Shape& s = array.shape;
    if (!heads_first) return Tensor::FromHost<float>(*backend_, s, Floats(name), DType::kF32);
    return Tensor::FromHost<float>(*backend_, {s.dim(0), s.dim(2), s.dim(1), s.dim(3)},
                                   SwapMiddle(Floats(name), s), DType::kF32);
  }
  void ExpectClose(const Tensor& actual, const std::string& name, bool heads_first) {
    ASSERT_THAT(actual.status(), IsOk()) << name;
    std::vector<float> expected = Floats(name), values(actual.num_elements());
    ASSERT_EQ(values.size(), expected.size()) << name;
    ASSERT_THAT(actual.ToHost(values.data()), IsOk());
    if (heads_first) values = SwapMiddle(values, actual.shape());
    double difference = 0, norm = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      difference += std::pow(static_cast<double>(values[i]) - expected[i], 2);
      norm += std::pow(static_cast<double>(expected[i]), 2);
    }
    EXPECT_LE(std::sqrt(difference), kTolerance * std::max(std::sqrt(norm), 1e-6)) << name;
  }

  using Forward = std::function<Tensor(const std::vector<Tensor>&)>;
  // Runs the operation on OP.in.*, and its backward from OP.dout (times `seed_scale`).
  void Check(const std::string& op, const std::vector<std::string>& inputs, const Forward& forward,
             double out_scale = 1, bool heads_first = false) {
    SCOPED_TRACE(op);
    checked_.insert(op);
    Tape tape(*backend_);
    std::vector<std::unique_ptr<Place>> places;
    std::vector<Tensor> watched;
    for (const std::string& input : inputs) {
      const Tensor value = Load(absl::StrCat(op, ".in.", input), heads_first);
      places.push_back(std::make_unique<Place>(
          Tensor::Zeros(*backend_, value.shape(), DType::kF32, MemoryCategory::kGradients)));
      watched.push_back(tape.Watch(value, places.back().get()));
    }
    const Tensor out = ops::Scale(forward(watched), out_scale);
    ExpectClose(out.Detach(), op + ".out", heads_first);
    ASSERT_THAT(tape.Backward({out}, {Load(op + ".dout", heads_first)}), IsOk());
    for (size_t i = 0; i < inputs.size(); ++i) {
      ExpectClose(places[i]->place(), absl::StrCat(op, ".grad.", inputs[i]), heads_first);
    }
  }

  void CheckAttention(const std::string& op, ops::AttentionOptions options) {
    options.heads = 3;
    Check(
        op, {"q", "k", "v"},
        [&](const std::vector<Tensor>& in) { return ops::Attention(in[0], in[1], in[2], options); }, 1, true);
  }

  PosixFileSystem files_;
  NamedArrays arrays_;
  std::unique_ptr<Backend> backend_;
  std::set<std::string> checked_;
};

TEST_F(GoldenOps, EveryBuiltOperationEqualsItsRecord) {
  Check("linear", {"x", "w", "b"}, [](const std::vector<Tensor>& in) {
    ops::LinearOptions options;
    options.weight_is_out_in = true;
    return ops::Linear(in[0], in[1], in[2], options);
  });
  for (const char* op : {"layer_norm", "layer_norm_constant_row", "layer_norm_large_mean"}) {
    Check(op, {"x", "w", "b"},
          [](const std::vector<Tensor>& in) { return ops::LayerNorm(in[0], in[1], in[2]); });
  }
  Check("rms_norm", {"x", "w"}, [](const std::vector<Tensor>& in) { return ops::RmsNorm(in[0], in[1]); });
  const std::pair<const char*, Activation> activations[] = {
      {"gelu_erf", Activation::kGeluErf}, {"gelu_tanh", Activation::kGeluTanh}, {"silu", Activation::kSilu}};
  for (const auto& [op, activation] : activations) {
    Check(op, {"x"}, [a = activation](const std::vector<Tensor>& in) { return ops::Activate(in[0], a); });
  }
  Check("softmax_large", {"x"}, [](const std::vector<Tensor>& in) { return ops::Softmax(in[0]); });

  ops::AttentionOptions attention;
  CheckAttention("attention_full", attention);
  attention.causal = true;
  CheckAttention("attention_causal", attention);
  attention.causal = false;
  // The recorded bias is 0 for a key that is seen.
  const std::vector<float> bias = Floats("attention_padding.bias");
  std::vector<int32_t> seen;
  for (float value : bias) seen.push_back(value == 0 ? 1 : 0);
  attention.q_segments =
      Tensor::FromHost<int32_t>(*backend_, {2, 37}, std::vector<int32_t>(2 * 37, 1), DType::kI32);
  attention.kv_segments = Tensor::FromHost<int32_t>(*backend_, {2, 37}, seen, DType::kI32);
  CheckAttention("attention_padding", attention);

  for (const char* op : {"cross_entropy_ignore", "cross_entropy_smooth"}) {
    const NamedArray recorded = Array(absl::StrCat(op, ".targets"));
    std::vector<int64_t> wide(recorded.shape.num_elements());
    std::memcpy(wide.data(), recorded.bytes.data(), recorded.bytes.size());
    const std::vector<int32_t> targets(wide.begin(), wide.end());
    double counted = 0;
    for (int32_t target : targets) counted += target != kIgnoredTarget;
    ops::CrossEntropyOptions options;
    options.smoothing = std::string(op) == "cross_entropy_smooth" ? 0.1 : 0;
    // Ours is a sum, the record a mean over counted targets.
    Check(
        op, {"x"},
        [&](const std::vector<Tensor>& in) {
          const Tensor ids = Tensor::FromHost<int32_t>(*backend_, {6}, targets, DType::kI32);
          return ops::CrossEntropy(in[0], ids, options);
        },
        1 / counted);
  }

  std::set<std::string> left;
  for (const NamedArray& array : arrays_.arrays()) {
    left.insert(std::vector<std::string>(absl::StrSplit(array.name, '.'))[0]);
  }
  for (const std::string& op : checked_) left.erase(op);
  EXPECT_THAT(left, ::testing::UnorderedElementsAreArray(kNotBuilt));
}

}  // namespace
}  // namespace armature
