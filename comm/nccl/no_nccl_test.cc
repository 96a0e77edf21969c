#include "armature/base/status_matchers.h"
#include "armature/comm/nccl/nccl_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

TEST(Nccl, SaysHowToBuildItWhereItIsAbsent) {
  EXPECT_THAT(ConnectNccl(MakeInprocStore(), 0, 1),
              StatusIs(absl::StatusCode::kUnimplemented, ::testing::HasSubstr("--config=cuda")));
}

}  // namespace
}  // namespace comm
}  // namespace armature
