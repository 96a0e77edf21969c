#include <cmath>
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
using ::testing::FloatNear;
using ::testing::Pointwise;

using Floats = std::vector<float>;
using Kernel = absl::Status (*)(Stream&, const NormArgs&);

std::vector<std::pair<int64_t, int64_t>> Shapes() {
  return {{0, 5}, {1, 1}, {3, 7}, {17, 3}, {1, 100}, {5, 64}, {100, 1023}, {1023, 17}};
}

Floats Concatenated(const Floats& a, const Floats& b) {
  Floats both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

struct Forward {
  Floats y, mean, rstd;

  Forward(Kernel kernel, Stream& stream, const Floats& x, const Floats& weight, const float* bias, bool rms)
      : y(x.size(), 100), mean(x.size() / weight.size(), 100), rstd(mean) {
    NormArgs args;
    args.x = x.data();
    args.weight = weight.data();
    args.bias = bias;
    args.y = y.data();
    args.mean = rms ? nullptr : mean.data();
    args.rstd = rstd.data();
    args.rows = static_cast<int64_t>(mean.size());
    args.cols = static_cast<int64_t>(weight.size());
    EXPECT_THAT(kernel(stream, args), IsOk());
  }
};

TEST(Norms, ConformToTheReference) {
  for (const auto& [rows, cols] : Shapes()) {
    const Floats x = TestValues(rows * cols, 1), weight = TestValues(cols, 2), bias = TestValues(cols, 3);
    for (const float* maybe_bias : {bias.data(), static_cast<const float*>(nullptr)}) {
      ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
        const Forward layer(kernels.layer_norm, stream, x, weight, maybe_bias, false);
        return Concatenated(layer.y, Concatenated(layer.mean, layer.rstd));
      });
    }
    ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
      const Forward layer(kernels.rms_norm, stream, x, weight, nullptr, true);
      return Concatenated(layer.y, layer.rstd);
    });
  }
}

TEST(LayerNorm, KeepsItsDigitsFarFromZero) {
  ThreadTeam team(1);
  CpuStream stream(team);
  const Floats ones4(4, 1), zeros4(4, 0);
  EXPECT_THAT(
      Forward(CpuKernels().layer_norm, stream, {40000, 40001, 40002, 40003}, ones4, zeros4.data(), false).y,
      Pointwise(FloatNear(1.4e-6f), {-1.341635420f, -.447211807f, .447211807f, 1.341635420f}));
  const Floats ones256(256, 1), zeros256(256, 0);
  EXPECT_THAT(Forward(CpuKernels().layer_norm, stream, Floats(256, 1234), ones256, zeros256.data(), false).y,
              Each(0));
}

// 100000.1 is no multiple of the spacing of floats there: the rounded mean is off by a visible part of the
// deviation.
TEST(LayerNorm, CorrectsTheRoundedMean) {
  Floats x = TestValues(768, 1);
  for (float& value : x) value = 100000.1f + value;
  const Floats weight(768, 1);
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    return Forward(kernels.layer_norm, stream, x, weight, nullptr, false).y;
  });
}

struct BackwardCase {
  bool rms, accumulate, wants_dx, wants_parameters;
};

TEST(NormBackward, ConformsToTheReference) {
  for (const BackwardCase& norm :
       {BackwardCase{false, false, true, true}, BackwardCase{true, false, true, true},
        BackwardCase{false, true, true, true}, BackwardCase{true, true, true, true},
        BackwardCase{false, false, true, false}, BackwardCase{false, false, false, true}}) {
    for (const auto& [rows, cols] : Shapes()) {
      // On one column LayerNorm's gradient is 0, and what is there is the rounding of a large reciprocal.
      if (!norm.rms && cols == 1) continue;
      const Floats x = TestValues(rows * cols, 1), weight = TestValues(cols, 2),
                   dy = TestValues(rows * cols, 3);
      const Floats dx_before = TestValues(rows * cols, 4), parameters_before = TestValues(2 * cols, 5);
      Floats mean(rows), rstd(rows);
      for (int64_t r = 0; r < rows; ++r) {
        mean[r] = norm.rms ? 0 : 0.01f * static_cast<float>(r % 7);
        rstd[r] = 0.8f + 0.01f * static_cast<float>(r % 5);
      }
      ExpectConforms(
          [&](const KernelTable& kernels, Stream& stream) {
            Floats dx = dx_before, parameters = parameters_before;
            NormBackwardArgs args;
            args.dy = dy.data();
            args.x = x.data();
            args.weight = weight.data();
            args.mean = norm.rms ? nullptr : mean.data();
            args.rstd = rstd.data();
            args.dx = norm.wants_dx ? dx.data() : nullptr;
            args.dweight = norm.wants_parameters ? parameters.data() : nullptr;
            args.dbias = norm.wants_parameters && !norm.rms ? parameters.data() + cols : nullptr;
            args.rows = rows;
            args.cols = cols;
            args.accumulate_dx = args.accumulate_dweight = args.accumulate_dbias = norm.accumulate;
            EXPECT_THAT((norm.rms ? kernels.rms_norm_backward : kernels.layer_norm_backward)(stream, args),
                        IsOk());
            return Concatenated(dx, parameters);
          },
          /*tolerance=*/1e-6, /*scale=*/10);
    }
  }
}

}  // namespace
}  // namespace armature
