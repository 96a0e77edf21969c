// Softmax and cross-entropy.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/conformance.h"
#include "armature/tensor/reference/reference_kernels.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using Floats = std::vector<float>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<std::pair<int64_t, int64_t>> Shapes() {
  return {{0, 5}, {5, 0}, {1, 1}, {3, 7}, {17, 3}, {5, 64}, {100, 1023}, {5, 9001}};
}

Floats SoftmaxOf(const KernelTable& kernels, Stream& stream, const Floats& x, int64_t rows, bool in_place) {
  Floats y = in_place ? x : Floats(x.size(), 100);
  SoftmaxArgs args;
  args.x = in_place ? y.data() : x.data();
  args.y = y.data();
  args.rows = rows;
  args.cols = rows == 0 ? 0 : static_cast<int64_t>(x.size()) / rows;
  EXPECT_THAT(kernels.softmax(stream, args), IsOk());
  return y;
}

TEST(Softmax, ConformsToTheReference) {
  for (const auto& [rows, cols] : Shapes()) {
    for (bool in_place : {false, true}) {
      const Floats x = TestValues(rows * cols, 1);
      ExpectConforms([&](const KernelTable& kernels,
                         Stream& stream) { return SoftmaxOf(kernels, stream, x, rows, in_place); },
                     /*tolerance=*/1e-6, /*scale=*/1e-6);
    }
  }
}

TEST(Softmax, GivesNoWeightToMinusInfinity) {
  const Floats x = {-kInfinity, 3, -kInfinity, -1000, 2};
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    const Floats y = SoftmaxOf(kernels, stream, x, 1, false);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[2], 0);
    return y;
  });
}

TEST(SoftmaxBackward, ConformsToTheReference) {
  for (const auto& [rows, cols] : Shapes()) {
    for (bool accumulate : {false, true}) {
      Floats y = TestValues(rows * cols, 1);
      for (float& value : y) value = (value + 2) / static_cast<float>(2 * cols);
      const Floats dy = TestValues(rows * cols, 2), before = TestValues(rows * cols, 3);
      ExpectConforms(
          [&](const KernelTable& kernels, Stream& stream) {
            Floats dx = before;
            SoftmaxBackwardArgs args;
            args.y = y.data();
            args.dy = dy.data();
            args.dx = dx.data();
            args.rows = rows;
            args.cols = cols;
            args.accumulate = accumulate;
            EXPECT_THAT(kernels.softmax_backward(stream, args), IsOk());
            return dx;
          },
          /*tolerance=*/1e-6);
    }
  }
}

// Losses, lse and the gradients of dloss 0.75, one after the other.
Floats CrossEntropyOf(const KernelTable& kernels, Stream& stream, const Floats& logits,
                      const std::vector<int32_t>& targets, int64_t classes, double smoothing, bool in_place) {
  const int64_t rows = static_cast<int64_t>(targets.size());
  const int64_t stride = rows == 0 ? 0 : static_cast<int64_t>(logits.size()) / rows;
  const float dloss = 0.75;
  Floats losses(rows, 100), lse(rows, 100), gradients = logits;
  CrossEntropyArgs forward;
  forward.logits = logits.data();
  forward.targets = targets.data();
  forward.losses = losses.data();
  forward.lse = lse.data();
  forward.rows = rows;
  forward.classes = classes;
  forward.stride = stride;
  forward.smoothing = smoothing;
  EXPECT_THAT(kernels.cross_entropy(stream, forward), IsOk());
  CrossEntropyBackwardArgs backward;
  backward.logits = in_place ? gradients.data() : logits.data();
  backward.targets = targets.data();
  backward.lse = lse.data();
  backward.dloss = &dloss;
  backward.dlogits = gradients.data();
  backward.rows = rows;
  backward.classes = classes;
  backward.stride = stride;
  backward.smoothing = smoothing;
  EXPECT_THAT(kernels.cross_entropy_backward(stream, backward), IsOk());
  losses.insert(losses.end(), lse.begin(), lse.end());
  losses.insert(losses.end(), gradients.begin(), gradients.end());
  return losses;
}

std::vector<int32_t> Targets(int64_t rows, int64_t classes) {
  std::vector<int32_t> targets(rows);
  for (int64_t r = 0; r < rows; ++r) {
    targets[r] = r % 5 == 3 ? kIgnoredTarget : static_cast<int32_t>(r * 7919 % classes);
  }
  return targets;
}

TEST(CrossEntropy, ConformsToTheReference) {
  for (const auto& [rows, stride] : Shapes()) {
    if (stride == 0) continue;
    for (int64_t classes : {stride, (stride + 1) / 2}) {
      for (double smoothing : {0.0, 0.1}) {
        const Floats logits = TestValues(rows * stride, 1);
        const std::vector<int32_t> targets = Targets(rows, classes);
        for (bool in_place : {false, true}) {
          ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
            return CrossEntropyOf(kernels, stream, logits, targets, classes, smoothing, in_place);
          });
        }
      }
    }
  }
}

// The running maximum rises from block to block, falls, and begins at -infinity.
TEST(CrossEntropy, FollowsAMaximumThatMoves) {
  Floats rising(9000), falling(9000), late(9000, -kInfinity);
  for (int64_t i = 0; i < 9000; ++i) {
    rising[i] = 0.01f * static_cast<float>(i);
    falling[i] = -0.01f * static_cast<float>(i);
    if (i > 5000) late[i] = 3;
  }
  for (const Floats& logits : {rising, falling, late}) {
    ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
      return CrossEntropyOf(kernels, stream, logits, {8999}, 9000, 0, false);
    });
  }
}

TEST(CrossEntropy, OfATargetThatIsNoClassIsNaN) {
  const Floats logits = TestValues(2 * 20, 1);
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    return CrossEntropyOf(kernels, stream, logits, {-1, 17}, 17, 0, false);
  });
}

TEST(CrossEntropy, PassesNaNOn) {
  Floats logits = TestValues(20, 1);
  logits[7] = std::numeric_limits<float>::quiet_NaN();
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    return CrossEntropyOf(kernels, stream, logits, {3}, 20, 0, false);
  });
}

// Losses and gradients of `parts` ranks that share out the columns, each padded to the same width.
Floats InParts(const KernelTable& kernels, Stream& stream, const Floats& logits,
               const std::vector<int32_t>& targets, int64_t classes, int64_t parts, double smoothing) {
  const int64_t rows = static_cast<int64_t>(targets.size()), width = (classes + parts - 1) / parts;
  std::vector<Floats> columns(parts, Floats(rows * width, 77));
  std::vector<double> statistics(parts * rows * kCrossEntropyStatistics);
  const auto valid = [&](int64_t p) { return std::clamp<int64_t>(classes - p * width, 0, width); };
  for (int64_t p = 0; p < parts; ++p) {
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < valid(p); ++c) columns[p][r * width + c] = logits[r * classes + p * width + c];
    }
    CrossEntropyPartArgs args;
    args.logits = columns[p].data();
    args.targets = targets.data();
    args.statistics = statistics.data() + p * rows * kCrossEntropyStatistics;
    args.rows = rows;
    args.classes = valid(p);
    args.stride = width;
    args.first_class = p * width;
    args.with_sum = smoothing > 0;
    EXPECT_THAT(kernels.cross_entropy_part(stream, args), IsOk());
  }
  Floats losses(rows), lse(rows), all;
  CrossEntropyJoinArgs join;
  join.statistics = statistics.data();
  join.targets = targets.data();
  join.losses = losses.data();
  join.lse = lse.data();
  join.parts = parts;
  join.rows = rows;
  join.classes = classes;
  join.smoothing = smoothing;
  EXPECT_THAT(kernels.cross_entropy_join(stream, join), IsOk());
  all = losses;
  all.insert(all.end(), lse.begin(), lse.end());
  const float dloss = 0.75;
  std::vector<Floats> gradients(parts, Floats(rows * width, 77));
  for (int64_t p = 0; p < parts; ++p) {
    CrossEntropyBackwardArgs args;
    args.logits = columns[p].data();
    args.targets = targets.data();
    args.lse = lse.data();
    args.dloss = &dloss;
    args.dlogits = gradients[p].data();
    args.rows = rows;
    args.classes = valid(p);
    args.stride = width;
    args.first_class = p * width;
    args.all_classes = classes;
    args.smoothing = smoothing;
    EXPECT_THAT(kernels.cross_entropy_backward(stream, args), IsOk());
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = valid(p); c < width; ++c) EXPECT_EQ(gradients[p][r * width + c], 0) << "padding";
    }
  }
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < classes; ++c) all.push_back(gradients[c / width][r * width + c % width]);
  }
  return all;
}

TEST(CrossEntropy, InPartsIsTheSameAsInOne) {
  for (const auto& [rows, classes] : Shapes()) {
    if (classes == 0) continue;
    const Floats logits = TestValues(rows * classes, 1);
    const std::vector<int32_t> targets = Targets(rows, classes);
    for (double smoothing : {0.0, 0.1}) {
      const auto whole = [&](const KernelTable& kernels, Stream& stream) {
        return CrossEntropyOf(kernels, stream, logits, targets, classes, smoothing, false);
      };
      for (int64_t parts : {1, 2, 4}) {
        const auto in_parts = [&](const KernelTable& kernels, Stream& stream) {
          return InParts(kernels, stream, logits, targets, classes, parts, smoothing);
        };
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          const bool reference = &kernels == &ReferenceKernels();
          return reference ? whole(kernels, stream) : in_parts(kernels, stream);
        });
        // The scalar kernels among themselves.
        ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
          const bool reference = &kernels == &ReferenceKernels();
          return reference ? whole(kernels, stream) : in_parts(ReferenceKernels(), stream);
        });
      }
    }
  }
}

TEST(CrossEntropy, InPartsATargetThatIsNoClassIsNaNInEachOfThem) {
  const Floats logits = TestValues(2 * 8, 1);
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    const Floats all = InParts(kernels, stream, logits, {-1, 8}, 8, 2, 0);
    for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(std::isnan(all[i]), i != 2 && i != 3) << i;
    return all;
  });
}

}  // namespace
}  // namespace armature
