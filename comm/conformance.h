// The promises that every backend of Communicator keeps, as tests. A backend's test links :conformance and
// says how to make a group:
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorConformance, ::testing::Values(backend), BackendName);
#ifndef ARMATURE_COMM_CONFORMANCE_H_
#define ARMATURE_COMM_CONFORMANCE_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/on_ranks.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {

struct ConformanceBackend {
  std::string name;
  // Makes all ranks of a group, each of which the tests use from a thread of its own.
  std::function<absl::StatusOr<RankList>(int size, absl::Duration timeout)> make;
};

class CommunicatorConformance : public ::testing::TestWithParam<ConformanceBackend> {
 protected:
  // Fails the test if the group can't be made.
  RankList Make(int size, absl::Duration timeout = absl::Seconds(60)) {
    absl::StatusOr<RankList> ranks = GetParam().make(size, timeout);
    EXPECT_THAT(ranks, IsOk());
    return ranks.ok() ? *std::move(ranks) : RankList();
  }
};

inline std::string BackendName(const ::testing::TestParamInfo<ConformanceBackend>& info) {
  return info.param.name;
}

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_CONFORMANCE_H_
