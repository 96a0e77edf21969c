#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/on_ranks.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

// 4 GiB of memory: run by hand.
TEST(InprocGroup, ReducesMoreThanTwoToThe31Elements) {
  constexpr int64_t kCount = (int64_t{1} << 31) + 13;
  ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(2));
  for (const absl::Status& status : OnRanks(ranks, [](Communicator& comm) {
         std::vector<uint8_t> data(kCount, static_cast<uint8_t>(1 + comm.rank()));
         absl::Status status =
             comm.AllReduce({data.data(), kCount, DType::kU8, Device()}, ReduceOp::kSum).Wait();
         for (int64_t i : {int64_t{0}, kCount / 2, kCount - 14, kCount - 1}) EXPECT_EQ(data[i], 3) << i;
         return status;
       })) {
    EXPECT_THAT(status, IsOk());
  }
}

}  // namespace
}  // namespace comm
}  // namespace armature
