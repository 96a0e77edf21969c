#include <string>

#include "armature/base/status_matchers.h"
#include "armature/tests/golden_run.h"

namespace armature {
namespace {

using ::testing::HasSubstr;

constexpr char kGpt2[] = "tests/testdata/goldens/gpt2";

void ExpectWithinTolerance(const GoldenLayout& layout) {
  std::string report;
  ASSERT_OK_AND_ASSIGN(const GoldenErrors errors,
                       RunGolden(kGpt2, layout, [&](const std::string& line) { report = line; }));
  EXPECT_TRUE(errors.ok()) << report;
}

TEST(Golden, Gpt2EqualsTheReference) { ExpectWithinTolerance({}); }

TEST(Golden, Gpt2InMicrobatchesOfUnequalTokenCounts) {
  for (int microbatches : {2, 3, 8}) {
    GoldenLayout layout;
    layout.microbatches = microbatches;
    ExpectWithinTolerance(layout);
  }
}

TEST(Golden, Gpt2WithRecomputation) {
  GoldenLayout layout;
  layout.recompute = true;
  layout.microbatches = 2;
  ExpectWithinTolerance(layout);
}

// Public GPT-2 weights are [in, out]. A square one would also load the other way around.
TEST(Golden, ASquareProjectionTheWrongWayAroundIsFarOff) {
  GoldenLayout layout;
  layout.transpose_square_projections = true;
  ASSERT_OK_AND_ASSIGN(const GoldenErrors errors, RunGolden(kGpt2, layout, [](const std::string&) {}));
  EXPECT_FALSE(errors.ok());
  EXPECT_GT(errors.logits, 1e-2);
}

TEST(Golden, AnUnknownScheduleIsNamed) {
  GoldenLayout layout;
  layout.schedule = "NONESUCH";
  EXPECT_THAT(RunGolden(kGpt2, layout, [](const std::string&) {}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("NONESUCH")));
}

TEST(Golden, AnAbsentDirectoryIsNamed) {
  EXPECT_THAT(RunGolden("tests/nowhere", {}, [](const std::string&) {}),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("tests/nowhere")));
}

}  // namespace
}  // namespace armature
