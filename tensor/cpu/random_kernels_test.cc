// Dropout and random fills: the numbers of tensor/random.h, wherever a region lies.
#include <limits>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/conformance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::Each;

using Floats = std::vector<float>;

RandomRegion Region(int64_t rows, int64_t cols, int64_t row_offset = 0, int64_t col_offset = 0,
                    int64_t global_cols = 0) {
  RandomRegion region;
  region.key = MakeRandomKey(1, RandomPurpose::kDropout, 2, 3);
  region.rows = rows;
  region.cols = cols;
  region.row_offset = row_offset;
  region.col_offset = col_offset;
  region.global_cols = global_cols == 0 ? cols : global_cols;
  return region;
}

std::vector<RandomRegion> Regions() {
  return {Region(0, 5),
          Region(5, 0),
          Region(1, 1),
          Region(3, 7),
          Region(1, 1023),
          Region(17, 100),
          Region(3, 7, 2, 5, 13),
          Region(17, 100, 1, 3, 1023),
          Region(2, 8, int64_t{1} << 33, 1, 10)};
}

TEST(Dropout, ConformsToTheReference) {
  for (RandomRegion region : Regions()) {
    for (int64_t samples : {1, 3, 40}) {
      for (double p : {0.0, 0.1, 0.5, 1.0}) {
        for (int variant = 0; variant < 3; ++variant) {  // plain, with a residual, accumulating
          region.first_sample = (int64_t{1} << 32) - 1;
          const int64_t count = samples * region.rows * region.cols;
          const Floats x = TestValues(count, 1), other = TestValues(count, 2);
          ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
            Floats y = other;
            DropoutArgs args;
            args.x = x.data();
            args.residual = variant == 1 ? other.data() : nullptr;
            args.y = y.data();
            args.samples = samples;
            args.p = p;
            args.region = region;
            args.accumulate = variant == 2;
            EXPECT_THAT(kernels.dropout(stream, args), IsOk());
            return y;
          });
        }
      }
    }
  }
}

TEST(Dropout, MayWriteOverXOrTheResidual) {
  const Floats x = TestValues(100, 1), residual = TestValues(100, 2);
  for (bool over_x : {false, true}) {
    ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
      Floats y = over_x ? x : residual;
      DropoutArgs args;
      args.x = over_x ? y.data() : x.data();
      args.residual = over_x ? residual.data() : y.data();
      args.y = y.data();
      args.samples = 1;
      args.p = 0.3;
      args.region = Region(4, 25);
      EXPECT_THAT(kernels.dropout(stream, args), IsOk());
      return y;
    });
  }
}

TEST(Dropout, AtOneIsZeroEvenForInfinity) {
  const Floats x(37, std::numeric_limits<float>::infinity());
  ExpectConforms([&](const KernelTable& kernels, Stream& stream) {
    Floats y(37, 100);
    DropoutArgs args;
    args.x = x.data();
    args.y = y.data();
    args.samples = 1;
    args.p = 1;
    args.region = Region(1, 37);
    EXPECT_THAT(kernels.dropout(stream, args), IsOk());
    EXPECT_THAT(y, Each(0));
    return y;
  });
}

TEST(RandomFill, ConformsToTheReference) {
  std::vector<RandomRegion> regions = Regions();
  regions.push_back(Region(40, 1000));
  for (const RandomRegion& region : regions) {
    for (bool normal : {false, true}) {
      ExpectConforms(
          [&](const KernelTable& kernels, Stream& stream) {
            Floats y(region.rows * region.cols, 100);
            RandomFillArgs args;
            args.y = y.data();
            args.region = region;
            args.normal = normal;
            args.offset = 0.25;
            args.scale = 2;
            EXPECT_THAT(kernels.random_fill(stream, args), IsOk());
            return y;
          },
          /*tolerance=*/3e-7);
    }
  }
}

TEST(RandomFill, GivesTheBitsOfUniformFloat) {
  ExpectConforms(
      [&](const KernelTable& kernels, Stream& stream) {
        Floats y(1023);
        RandomFillArgs args;
        args.y = y.data();
        args.region = Region(1, 1023, 0, 7, 2000);
        args.normal = false;
        EXPECT_THAT(kernels.random_fill(stream, args), IsOk());
        return y;
      },
      /*tolerance=*/0);
}

}  // namespace
}  // namespace armature
