// The reference run over data ranks, sharding stages, microbatches and recomputation: the same values in
// every layout.
#include <string>
#include <tuple>

#include "armature/base/status_matchers.h"
#include "armature/tests/golden_run.h"

namespace armature {
namespace {

class GoldenDataParallel : public ::testing::TestWithParam<std::tuple<int, int, int, bool>> {};

TEST_P(GoldenDataParallel, EqualsTheReference) {
  GoldenLayout layout;
  std::tie(layout.data, layout.sharding, layout.microbatches, layout.recompute) = GetParam();
  std::string report;
  ASSERT_OK_AND_ASSIGN(const GoldenErrors errors, RunGolden("tests/testdata/goldens/gpt2", layout,
                                                            [&](const std::string& line) { report = line; }));
  EXPECT_TRUE(errors.ok()) << report;
}

INSTANTIATE_TEST_SUITE_P(Layouts, GoldenDataParallel,
                         ::testing::Combine(::testing::Values(1, 2, 4), ::testing::Values(0, 1, 2, 3),
                                            ::testing::Values(1, 2, 4), ::testing::Bool()),
                         [](const auto& info) {
                           return "Data" + std::to_string(std::get<0>(info.param)) + "Stage" +
                                  std::to_string(std::get<1>(info.param)) + "Micro" +
                                  std::to_string(std::get<2>(info.param)) +
                                  (std::get<3>(info.param) ? "Recompute" : "");
                         });

TEST(GoldenReproducible, EqualsTheReference) {
  GoldenLayout layout;
  layout.data = 4;
  layout.sharding = 2;
  layout.reproducible = true;
  std::string report;
  ASSERT_OK_AND_ASSIGN(const GoldenErrors errors, RunGolden("tests/testdata/goldens/gpt2", layout,
                                                            [&](const std::string& line) { report = line; }));
  EXPECT_TRUE(errors.ok()) << report;
}

}  // namespace
}  // namespace armature
