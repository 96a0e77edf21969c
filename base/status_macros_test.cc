#include "armature/base/status_macros.h"

#include <memory>
#include <string>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::Eq;

absl::StatusOr<int> Half(int x) {
  if (x % 2 != 0) return absl::InvalidArgumentError(absl::StrCat(x, " is odd"));
  return x / 2;
}

absl::StatusOr<int> Quarter(int x) {
  ARMATURE_ASSIGN_OR_RETURN(int half, Half(x), "first half of ", x);
  ARMATURE_ASSIGN_OR_RETURN(half, Half(half));
  return half;
}

absl::Status CheckEven(int x) {
  ARMATURE_RETURN_IF_ERROR(Half(x).status(), "checking");
  return absl::OkStatus();
}

TEST(StatusMacros, PassValuesThrough) {
  EXPECT_THAT(Quarter(8), IsOkAndHolds(2));
  EXPECT_THAT(CheckEven(2), IsOk());
}

TEST(StatusMacros, ContextStandsBeforeTheMessageAndTheCodeStays) {
  EXPECT_THAT(Quarter(3), StatusIs(absl::StatusCode::kInvalidArgument, Eq("first half of 3: 3 is odd")));
  EXPECT_THAT(CheckEven(5), StatusIs(absl::StatusCode::kInvalidArgument, Eq("checking: 5 is odd")));
}

TEST(StatusMacros, WithoutContextTheErrorIsUnchanged) {
  EXPECT_THAT(Quarter(2), StatusIs(absl::StatusCode::kInvalidArgument, Eq("1 is odd")));
}

TEST(StatusMacros, MoveOnlyValues) {
  auto make = []() -> absl::StatusOr<std::unique_ptr<int>> { return std::make_unique<int>(3); };
  auto use = [&]() -> absl::StatusOr<int> {
    ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<int> p, make(), "making");
    return *p;
  };
  EXPECT_THAT(use(), IsOkAndHolds(3));
}

}  // namespace
}  // namespace armature
