#include "armature/tensor/tensor.h"

#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/tensor/cpu/cpu_backend.h"
#include "armature/tensor/testing/gradient_place.h"

namespace armature {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    CpuOptions options;
    options.memory_limit_bytes = int64_t{1} << 24;
    ASSERT_OK_AND_ASSIGN(backend_, MakeCpuBackend(options));
  }
  Tensor Make(const Shape& shape, const std::vector<float>& values) {
    return Tensor::FromHost<float>(*backend_, shape, values, DType::kF32);
  }
  int64_t LiveBytes(MemoryCategory category) { return backend_->allocator().counters(category).live_bytes; }

  std::unique_ptr<Backend> backend_;
};

TEST_F(TensorTest, ADefaultOneIsInvalidButNoElementsAreStillATensor) {
  const Tensor none;
  EXPECT_FALSE(none.valid());
  EXPECT_FALSE(none.ok());
  EXPECT_THAT(none.status(), StatusIs(absl::StatusCode::kFailedPrecondition));
  const Tensor empty = Tensor::Empty(*backend_, {2, 0}, DType::kF32, MemoryCategory::kOther);
  EXPECT_TRUE(empty.ok());
  EXPECT_EQ(empty.size_bytes(), 0);
}

TEST_F(TensorTest, ViewsShareMemoryAndCountItOnce) {
  const Tensor x = Make({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_TRUE(x.unique());
  const Tensor rows = x.Slice(1, 3), as_vector = rows.Reshape({4});
  EXPECT_EQ(rows.shape(), (Shape{2, 2}));
  EXPECT_THAT(ToDoubles(as_vector), ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(ToDoubles(as_vector.Slice(1, 3)), ElementsAre(4, 5));
  EXPECT_EQ(rows.storage(), x.storage());
  EXPECT_FALSE(x.unique());
  EXPECT_EQ(backend_->allocator().total().live_bytes, 6 * 4);
}

TEST_F(TensorTest, ASliceMayBeEmptyAtBothEnds) {
  const Tensor x = Make({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(x.Slice(0, 0).shape(), (Shape{0, 2}));
  EXPECT_EQ(x.Slice(3, 3).shape(), (Shape{0, 2}));
  EXPECT_TRUE(Tensor::Empty(*backend_, {0, 2}, DType::kF32, MemoryCategory::kOther).Slice(0, 0).ok());
}

TEST_F(TensorTest, ASliceOutOfRangeNamesRangeAndShape) {
  const Tensor x = Make({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(x.Slice(1, 4).status(), StatusIs(absl::StatusCode::kOutOfRange, HasSubstr("[1, 4) of [3, 2]")));
  EXPECT_THAT(x.Slice(-1, 2).status(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(x.Slice(2, 1).status(), StatusIs(absl::StatusCode::kOutOfRange));
  EXPECT_THAT(Make({}, {1}).Slice(0, 1).status(), StatusIs(absl::StatusCode::kOutOfRange));
}

TEST_F(TensorTest, ReshapeToOtherNumbersOfElementsNamesBothShapes) {
  EXPECT_THAT(Make({2, 2}, {1, 2, 3, 4}).Reshape({3}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("[2, 2] to [3]")));
}

TEST_F(TensorTest, MemoryIsCountedByCategoryUntilTheLastViewIsGone) {
  Tensor view;
  {
    const Tensor x = Tensor::Empty(*backend_, {100}, DType::kBF16, MemoryCategory::kGradients);
    const Tensor y = Tensor::Empty(*backend_, {5}, DType::kF64, MemoryCategory::kActivations);
    view = x.Slice(10, 20);
    EXPECT_EQ(LiveBytes(MemoryCategory::kGradients), 200);
    EXPECT_EQ(LiveBytes(MemoryCategory::kActivations), 40);
  }
  EXPECT_EQ(LiveBytes(MemoryCategory::kGradients), 200);
  EXPECT_EQ(LiveBytes(MemoryCategory::kActivations), 0);
  view = Tensor();
  EXPECT_EQ(backend_->allocator().total().live_bytes, 0);
  EXPECT_EQ(backend_->allocator().counters(MemoryCategory::kGradients).peak_bytes, 200);
}

TEST_F(TensorTest, ZerosAreZeroInEveryDType) {
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64, DType::kI32, DType::kI64,
                      DType::kU8, DType::kBool}) {
    for (int64_t count : {0, 1, 7, 33}) {
      {
        // What the allocator gives out next has other bytes.
        const Tensor used = Tensor::Empty(*backend_, {count}, dtype, MemoryCategory::kOther);
        if (count > 0) std::memset(used.data(), 0xAB, used.size_bytes());
      }
      const Tensor zeros = Tensor::Zeros(*backend_, {count}, dtype, MemoryCategory::kOther);
      std::vector<uint8_t> bytes(zeros.size_bytes());
      ASSERT_THAT(zeros.ToHost(bytes.data()), IsOk());
      EXPECT_THAT(bytes, Each(0)) << Name(dtype) << " " << count;
    }
  }
}

TEST_F(TensorTest, HostElementsMustFitTheShape) {
  EXPECT_THAT(Make({3}, {1, 2}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("8 bytes for a tensor [3] of f32")));
  EXPECT_THAT(Tensor::FromHost<double>(*backend_, {2}, std::vector<double>{1, 2}, DType::kF32).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("16 bytes")));
}

TEST_F(TensorTest, TooLargeIsAnErrorAndNoCrash) {
  EXPECT_THAT(
      Tensor::Empty(*backend_, {std::numeric_limits<int64_t>::max() / 4}, DType::kF64, MemoryCategory::kOther)
          .status(),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("too many bytes")));
  EXPECT_THAT(Tensor::Zeros(*backend_, {1 << 24}, DType::kF32, MemoryCategory::kActivations).status(),
              StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(TensorTest, AFailedOnePassesItsErrorThroughEveryView) {
  const absl::Status why = absl::DataLossError("the first error");
  const Tensor failed = Tensor::Failed(why);
  EXPECT_TRUE(failed.valid());
  EXPECT_FALSE(failed.ok());
  EXPECT_EQ(failed.Slice(0, 1).status(), why);
  EXPECT_EQ(failed.Reshape({1}).status(), why);
  EXPECT_EQ(failed.Detach().status(), why);
  float value = 0;
  EXPECT_EQ(failed.ToHost(&value), why);
  EXPECT_THAT(Tensor::Failed(absl::OkStatus()).status(), StatusIs(absl::StatusCode::kInternal));
}

}  // namespace
}  // namespace armature
