// The reference run over tensor ranks, alone and together with data ranks and sharding: the same values.
#include <string>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/tests/golden_run.h"

namespace armature {
namespace {

void ExpectWithinTolerance(const GoldenLayout& layout) {
  SCOPED_TRACE(absl::StrCat("tensor ", layout.tensor, " data ", layout.data, " stage ", layout.sharding,
                            " sequence parallel ", layout.sequence_parallel, " microbatches ",
                            layout.microbatches));
  std::string report;
  ASSERT_OK_AND_ASSIGN(const GoldenErrors errors,
                       RunGolden("tests/testdata/goldens/gpt2", layout,
                                 [&](const std::string& line) { report = line; }));
  EXPECT_TRUE(errors.ok()) << report;
}

TEST(GoldenTensorParallel, EqualsTheReference) {
  for (const int tensor : {2, 4}) {
    for (const bool sequence_parallel : {false, true}) {
      GoldenLayout layout;
      layout.tensor = tensor;
      layout.sequence_parallel = sequence_parallel;
      ExpectWithinTolerance(layout);
    }
  }
}

TEST(GoldenTensorParallel, EqualsTheReferenceWithDataRanksAndSharding) {
  for (const int sharding : {0, 1, 2, 3}) {
    GoldenLayout layout;
    layout.tensor = 2;
    layout.data = 2;
    layout.sharding = sharding;
    layout.sequence_parallel = sharding % 2 == 1;
    layout.microbatches = 2;
    layout.recompute = sharding >= 2;
    ExpectWithinTolerance(layout);
  }
}

}  // namespace
}  // namespace armature
