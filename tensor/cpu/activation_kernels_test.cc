#include <cmath>
#include <limits>
#include <tuple>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using Floats = std::vector<float>;

constexpr Activation kActivations[] = {Activation::kNone, Activation::kGeluErf, Activation::kGeluTanh,
                                       Activation::kSilu, Activation::kRelu};

std::vector<std::pair<int64_t, int64_t>> Shapes() {
  return {{0, 5}, {5, 0}, {1, 1}, {3, 7}, {17, 3}, {1, 100}, {5, 64}, {100, 1023}};
}

TEST(BiasActivation, ConformsToTheReference) {
  for (Activation activation : kActivations) {
    for (const auto& [rows, cols] : Shapes()) {
      for (bool with_bias : {false, true}) {
        const Floats x = TestValues(rows * cols, 1), bias = TestValues(cols, 2);
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          Floats out(2 * rows * cols, 100);
          BiasActivationArgs args;
          args.x = x.data();
          args.bias = with_bias ? bias.data() : nullptr;
          args.y = out.data();
          args.pre = out.data() + rows * cols;
          args.rows = rows;
          args.cols = cols;
          args.activation = activation;
          EXPECT_THAT(kernels.bias_activation(stream, args), IsOk());
          return out;
        });
      }
    }
  }
}

TEST(BiasActivation, MayWriteOverItsInput) {
  const Floats x = TestValues(3 * 37, 1), bias = TestValues(37, 2);
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    Floats y = x;
    BiasActivationArgs args;
    args.x = args.y = y.data();
    args.bias = bias.data();
    args.rows = 3;
    args.cols = 37;
    args.activation = Activation::kGeluErf;
    EXPECT_THAT(kernels.bias_activation(stream, args), IsOk());
    return y;
  });
}

TEST(ActivationBackward, ConformsToTheReference) {
  for (Activation activation : kActivations) {
    for (int64_t count : {0, 1, 3, 17, 100, 50001}) {
      for (bool accumulate : {false, true}) {
        const Floats pre = TestValues(count, 1), dy = TestValues(count, 2), before = TestValues(count, 3);
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          Floats dx = before;
          ActivationBackwardArgs args;
          args.pre = pre.data();
          args.dy = dy.data();
          args.dx = dx.data();
          args.count = count;
          args.activation = activation;
          args.accumulate = accumulate;
          EXPECT_THAT(kernels.activation_backward(stream, args), IsOk());
          return dx;
        });
      }
    }
  }
}

TEST(ActivationBackward, MayWriteOverTheGradient) {
  const Floats pre = TestValues(37, 1), dy = TestValues(37, 2);
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    Floats dx = dy;
    ActivationBackwardArgs args;
    args.pre = pre.data();
    args.dy = args.dx = dx.data();
    args.count = 37;
    args.activation = Activation::kGeluTanh;
    EXPECT_THAT(kernels.activation_backward(stream, args), IsOk());
    return dx;
  });
}

// The whole range, relative to the value itself: far in the left tail GELU is tiny, but not wrong.
TEST(Activations, KeepTheirRelativePrecisionInTheTails) {
  Floats x;
  for (float value = -12; value <= 12; value += 0.0117f) x.push_back(value);
  for (Activation activation : kActivations) {
    ExpectConforms(
        [&](const KernelTable& kernels, Stream& stream) {
          Floats y(x.size());
          BiasActivationArgs args;
          args.x = x.data();
          args.y = y.data();
          args.rows = 1;
          args.cols = static_cast<int64_t>(x.size());
          args.activation = activation;
          EXPECT_THAT(kernels.bias_activation(stream, args), IsOk());
          return y;
        },
        /*tolerance=*/2e-5, /*scale=*/1e-30);
  }
}

TEST(Activations, AreFiniteFarFromZero) {
  const Floats x = {-1e30f, -1000, -100, -50, 50, 100, 1000, 1e30f, -0.0f, 0};
  for (Activation activation : kActivations) {
    ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
      Floats y(x.size());
      BiasActivationArgs args;
      args.x = x.data();
      args.y = y.data();
      args.rows = 1;
      args.cols = static_cast<int64_t>(x.size());
      args.activation = activation;
      EXPECT_THAT(kernels.bias_activation(stream, args), IsOk());
      return y;
    });
  }
}

TEST(Activations, PassNaNOn) {
  const Floats x(19, std::numeric_limits<float>::quiet_NaN());
  for (Activation activation : kActivations) {
    ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
      Floats y(x.size());
      BiasActivationArgs args;
      args.x = x.data();
      args.y = y.data();
      args.rows = 1;
      args.cols = static_cast<int64_t>(x.size());
      args.activation = activation;
      EXPECT_THAT(kernels.bias_activation(stream, args), IsOk());
      return y;
    });
  }
}

TEST(ColumnSum, ConformsToTheReference) {
  for (const auto& [rows, cols] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 5}, {5, 0}, {1, 1}, {3, 7}, {64, 17}, {100, 1023}, {1023, 100}}) {
    for (bool accumulate : {false, true}) {
      const Floats x = TestValues(rows * cols, 1), before = TestValues(cols, 2);
      ExpectConforms(
          [&](const KernelTable& kernels, Stream& stream) {
            Floats out = before;
            ColumnSumArgs args;
            args.x = x.data();
            args.out = out.data();
            args.rows = rows;
            args.cols = cols;
            args.accumulate = accumulate;
            EXPECT_THAT(kernels.column_sum(stream, args), IsOk());
            return out;
          },
          /*tolerance=*/1e-6, /*scale=*/10);
    }
  }
}

}  // namespace
}  // namespace armature
