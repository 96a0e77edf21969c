#include "armature/comm/conformance_grid.h"
#include "armature/comm/connect_all.h"
#include "armature/comm/shm/shm_group.h"

namespace armature {
namespace comm {
namespace {

ConformanceBackend Shm() {
  return {"Shm", [](int size, absl::Duration timeout) {
            return ConnectAll(size, [&](std::shared_ptr<Store> store, int rank) {
              return ConnectSharedMemory(std::move(store), rank, size, {"world", timeout});
            });
          }};
}

INSTANTIATE_TEST_SUITE_P(Shm, CommunicatorConformance, ::testing::Values(Shm()), BackendName);
INSTANTIATE_TEST_SUITE_P(Shm, CommunicatorGrid, ::testing::ValuesIn(GridCases(Shm(), {1, 2, 3, 4, 7, 8})),
                         GridName);

}  // namespace
}  // namespace comm
}  // namespace armature
