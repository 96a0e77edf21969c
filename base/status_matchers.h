// GoogleTest matchers for absl::Status and absl::StatusOr:
//
//   EXPECT_THAT(engine->Save(), IsOk());
//   EXPECT_THAT(Parse("3"), IsOkAndHolds(3));
//   EXPECT_THAT(Parse("x"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("x")));
//   ASSERT_OK_AND_ASSIGN(Header header, ReadHeader(path));
#ifndef ARMATURE_BASE_STATUS_MATCHERS_H_
#define ARMATURE_BASE_STATUS_MATCHERS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace internal {

inline const absl::Status& GetStatus(const absl::Status& status) { return status; }
template <typename T>
const absl::Status& GetStatus(const absl::StatusOr<T>& result) {
  return result.status();
}

}  // namespace internal

MATCHER(IsOk, negation ? "is an error" : "is OK") {
  *result_listener << internal::GetStatus(arg).ToString();
  return internal::GetStatus(arg).ok();
}

MATCHER_P2(StatusIs, code, message, "") {
  const absl::Status& status = internal::GetStatus(arg);
  *result_listener << status.ToString();
  return status.code() == code &&
         ::testing::Matches(::testing::SafeMatcherCast<std::string>(message))(std::string(status.message()));
}

inline auto StatusIs(absl::StatusCode code) { return StatusIs(code, ::testing::_); }

MATCHER_P(IsOkAndHolds, value, "") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  return ::testing::ExplainMatchResult(value, *arg, result_listener);
}

}  // namespace armature

#define ASSERT_OK_AND_ASSIGN(lhs, ...) \
  ARMATURE_ASSERT_OK_AND_ASSIGN_(ARMATURE_TEST_CONCAT_(armature_result_, __LINE__), lhs, __VA_ARGS__)
#define ARMATURE_ASSERT_OK_AND_ASSIGN_(result, lhs, ...) \
  auto result = (__VA_ARGS__);                           \
  ASSERT_TRUE(result.ok()) << result.status();           \
  lhs = *std::move(result)
#define ARMATURE_TEST_CONCAT_(a, b) ARMATURE_TEST_CONCAT_EXPANDED_(a, b)
#define ARMATURE_TEST_CONCAT_EXPANDED_(a, b) a##b

#endif  // ARMATURE_BASE_STATUS_MATCHERS_H_
