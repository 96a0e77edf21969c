#include "armature/comm/nccl/nccl_group.h"

#include <cuda_runtime.h>

#include <vector>

#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/connect_all.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::Each;

int CountGpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

// Memory of a GPU with values from the host.
class GpuFloats {
 public:
  GpuFloats(int device, const std::vector<float>& values) : count_(static_cast<int64_t>(values.size())) {
    device_ = {Device::Kind::kCuda, device};
    cudaSetDevice(device);
    cudaMalloc(&data_, values.size() * sizeof(float));
    cudaMemcpy(data_, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice);
  }
  ~GpuFloats() { cudaFree(data_); }
  BufferView view() const { return {data_, count_, DType::kF32, device_}; }
  std::vector<float> values() const {
    std::vector<float> values(count_);
    cudaMemcpy(values.data(), data_, values.size() * sizeof(float), cudaMemcpyDeviceToHost);
    return values;
  }

 private:
  void* data_ = nullptr;
  int64_t count_;
  Device device_;
};

class Nccl : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    if (CountGpus() < GetParam())
      GTEST_SKIP() << "needs " << GetParam() << " GPUs, and there are " << CountGpus();
    ASSERT_OK_AND_ASSIGN(ranks_, ConnectAll(GetParam(), [](std::shared_ptr<Store> store, int rank) {
                           NcclOptions options;
                           options.device = rank;
                           options.group.timeout = absl::Seconds(60);
                           return ConnectNccl(std::move(store), rank, GetParam(), options);
                         }));
  }
  RankList ranks_;
};

TEST_P(Nccl, ReducesAndMoves) {
  const int world = GetParam();
  EXPECT_THAT(OnRanks(ranks_,
                      [&](Communicator& comm) -> absl::Status {
                        const int rank = comm.rank();
                        GpuFloats sum(rank, std::vector<float>(1000, rank + 1.0f));
                        ARMATURE_RETURN_IF_ERROR(comm.AllReduce(sum.view(), ReduceOp::kSum).Wait());
                        EXPECT_THAT(sum.values(), Each(world * (world + 1) / 2.0f));
                        GpuFloats part(rank, {rank + 0.5f}), whole(rank, std::vector<float>(world));
                        ARMATURE_RETURN_IF_ERROR(comm.AllGather(part.view(), whole.view()).Wait());
                        for (int i = 0; i < world; ++i) EXPECT_EQ(whole.values()[i], i + 0.5f);
                        GpuFloats exchanged(rank, std::vector<float>(world));
                        ARMATURE_RETURN_IF_ERROR(comm.AllToAll(whole.view(), exchanged.view()).Wait());
                        EXPECT_THAT(exchanged.values(), Each(rank + 0.5f));
                        return comm.Barrier(absl::InfiniteFuture());
                      }),
              Each(IsOk()));
}

TEST_P(Nccl, AnAbortReachesEveryRank) {
  EXPECT_THAT(OnRanks(ranks_,
                      [&](Communicator& comm) {
                        if (comm.rank() == 0) comm.Abort(absl::DataLossError("the disk is on fire"));
                        return comm.Barrier(absl::Now() + absl::Seconds(20));
                      }),
              Each(StatusIs(absl::StatusCode::kCancelled, ::testing::HasSubstr("the disk is on fire"))));
}

INSTANTIATE_TEST_SUITE_P(Worlds, Nccl, ::testing::Values(1, 2, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace comm
}  // namespace armature
