// Right values of every verb, for every backend: verb x dtype x reduction x root x count x in place, for one
// world size at a time, against a reference that works on doubles.
//
//   const auto cases = ::testing::ValuesIn(GridCases(backend, {1, 2, 4}));
//   INSTANTIATE_TEST_SUITE_P(Inproc, CommunicatorGrid, cases, GridName);
#ifndef ARMATURE_COMM_CONFORMANCE_GRID_H_
#define ARMATURE_COMM_CONFORMANCE_GRID_H_

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/comm/conformance.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {

struct GridCase {
  ConformanceBackend backend;
  int world = 1;
  // False: each (verb, dtype, reduction) with every count up to 127, and a ninth of those with larger ones;
  // the root and in-place use rotate. True: every combination.
  bool full = false;
};

class CommunicatorGrid : public ::testing::TestWithParam<GridCase> {};

inline std::vector<GridCase> GridCases(const ConformanceBackend& backend, const std::vector<int>& worlds,
                                       bool full = false) {
  std::vector<GridCase> cases;
  for (int world : worlds) cases.push_back({backend, world, full});
  return cases;
}

inline std::string GridName(const ::testing::TestParamInfo<GridCase>& info) {
  return absl::StrCat(info.param.backend.name, "World", info.param.world);
}

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_CONFORMANCE_GRID_H_
