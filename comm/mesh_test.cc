#include "armature/comm/mesh.h"

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/comm/on_ranks.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Mesh, TensorVariesFastest) {
  const MeshShape shape = {2, 3, 1, 4};
  EXPECT_THAT(CoordinatesOf(shape, 0), ElementsAre(0, 0, 0, 0));
  EXPECT_THAT(CoordinatesOf(shape, 5), ElementsAre(0, 1, 0, 1));
  EXPECT_THAT(CoordinatesOf(shape, 23), ElementsAre(1, 2, 0, 3));
  for (int rank = 0; rank < 24; ++rank) EXPECT_EQ(RankAt(shape, CoordinatesOf(shape, rank)), rank);
}

// Each rank brings its number: the sum over an axis says who was in the group.
TEST(Mesh, GroupsHoldTheRanksThatDifferOnTheirAxisOnly) {
  const MeshShape shape = {2, 2, 1, 2};
  ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(8));
  const auto sum = [](Communicator& group, int rank) {
    std::vector<int32_t> data = {rank};
    EXPECT_THAT(group.AllReduce({data.data(), 1, DType::kI32, Device()}, ReduceOp::kSum).Wait(), IsOk());
    return data[0];
  };
  EXPECT_THAT(OnRanks(ranks,
                      [&](Communicator& comm) -> absl::Status {
                        const int rank = comm.rank();
                        ARMATURE_ASSIGN_OR_RETURN(auto mesh, Mesh::Create(shape, std::move(ranks[rank])));
                        EXPECT_EQ(sum(mesh->axis(Axis::kTensor), rank), 2 * (rank & ~1) + 1);
                        EXPECT_EQ(sum(mesh->axis(Axis::kContext), rank), rank);
                        EXPECT_EQ(sum(mesh->axis(Axis::kData), rank), 2 * (rank & ~2) + 2);
                        EXPECT_EQ(sum(mesh->replicas(), rank), 2 * (rank & ~2) + 2);
                        EXPECT_EQ(sum(mesh->axis(Axis::kPipeline), rank), 2 * (rank % 4) + 4);
                        EXPECT_EQ(mesh->axis(Axis::kPipeline).rank(), mesh->coordinate(Axis::kPipeline));
                        EXPECT_EQ(mesh->axis(Axis::kContext).size(), 1);
                        return mesh->world().Barrier(absl::InfiniteFuture());
                      }),
              Each(IsOk()));
}

TEST(Mesh, PrintsItself) {
  ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(1));
  ASSERT_OK_AND_ASSIGN(auto mesh, Mesh::Create({}, std::move(ranks[0])));
  EXPECT_EQ(mesh->ToString(),
            "rank 0 of pipeline 1 x data 1 x context 1 x tensor 1: pipeline 0, data 0, context 0, tensor 0");
  EXPECT_THAT(mesh->axis(Axis::kTensor).Barrier(absl::InfiniteFuture()), IsOk());
  EXPECT_EQ(mesh->axis(Axis::kTensor).name(), "tensor group of rank 0");
}

TEST(Mesh, RefusesSizesWhoseProductIsNotTheWorld) {
  ASSERT_OK_AND_ASSIGN(RankList ranks, MakeInprocGroup(4));
  EXPECT_THAT(Mesh::Create({3, 1, 1, 2}, std::move(ranks[0])),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("pipeline 3"), HasSubstr("6 ranks"), HasSubstr("world has 4"))));
  EXPECT_THAT(Mesh::Create({1, -4, 1, -1}, std::move(ranks[1])),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("data must be >= 1")));
}

}  // namespace
}  // namespace comm
}  // namespace armature
