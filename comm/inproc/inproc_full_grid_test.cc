#include "armature/comm/conformance_grid.h"
#include "armature/comm/inproc/inproc_group.h"

namespace armature {
namespace comm {
namespace {

ConformanceBackend Inproc() {
  return {"Inproc", [](int size, absl::Duration timeout) {
            return MakeInprocGroup(size, {"world", timeout});
          }};
}

INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorGrid,
                         ::testing::ValuesIn(GridCases(Inproc(), {1, 2, 3, 4, 7, 8}, /*full=*/true)),
                         GridName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CommunicatorConformance);

}  // namespace
}  // namespace comm
}  // namespace armature
