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

INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorConformance, ::testing::Values(Inproc()), BackendName);
INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorGrid,
                         ::testing::ValuesIn(GridCases(Inproc(), {1, 2, 3, 4, 7, 8})), GridName);

}  // namespace
}  // namespace comm
}  // namespace armature
