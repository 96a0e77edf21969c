#include "armature/comm/conformance_grid.h"
#include "armature/comm/connect_all.h"
#include "armature/comm/gloo/gloo_group.h"

namespace armature {
namespace comm {
namespace {

ConformanceBackend Gloo() {
  return {"Gloo", [](int size, absl::Duration timeout) {
            return ConnectAll(size, [&](std::shared_ptr<Store> store, int rank) {
              return ConnectGloo(std::move(store), rank, size, "127.0.0.1", {"world", timeout});
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorConformance, ::testing::Values(Gloo()), BackendName);
INSTANTIATE_TEST_SUITE_P(Gloo, CommunicatorGrid, ::testing::ValuesIn(GridCases(Gloo(), {1, 2, 3, 4})),
                         GridName);

}  // namespace
}  // namespace comm
}  // namespace armature
