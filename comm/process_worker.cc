// One rank of a small job, for tests under real launchers: takes its place from the environment, sums over
// the world and over a sub-group, and says so. Exits with 1 and the error on failure.

#include <cstdlib>
#include <iostream>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/process_group.h"
#include "armature/comm/rendezvous.h"

namespace armature {
namespace comm {
namespace {

absl::Status Sum(Communicator& comm, std::vector<float>& data) {
  return comm
      .AllReduce({data.data(), static_cast<int64_t>(data.size()), DType::kF32, Device()}, ReduceOp::kSum)
      .Wait();
}

absl::Status RunRank(Transport transport) {
  ARMATURE_ASSIGN_OR_RETURN(ProcessPlace place,
                            PlaceFromEnvironment([](const char* name) { return getenv(name); }));
  ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Store> store,
                            OpenRendezvous(place, absl::Now() + absl::Seconds(30)));
  ProcessGroupOptions options;
  options.group.timeout = absl::Seconds(30);
  options.transport = transport;
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> world,
                            ConnectProcesses(store, place.rank, place.world_size, options));
  std::vector<float> data(100000, static_cast<float>(place.rank + 1));
  ARMATURE_RETURN_IF_ERROR(Sum(*world, data));
  const int n = place.world_size;
  if (data.back() != n * (n + 1) / 2) return absl::InternalError("wrong sum over the world");
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> half, world->Split(place.rank % 2, 0));
  std::vector<float> ones(10, 1.0f);
  ARMATURE_RETURN_IF_ERROR(Sum(*half, ones));
  if (ones.back() != half->size()) return absl::InternalError("wrong sum over the half");
  // Rank 0 serves the store: it stays until all are done with it.
  ARMATURE_RETURN_IF_ERROR(world->Barrier(absl::InfiniteFuture()));
  std::cout << "rank " << place.rank << " of " << n << " under " << place.launcher << ": ok" << std::endl;
  return absl::OkStatus();
}

}  // namespace
}  // namespace comm
}  // namespace armature

int main(int argc, char** argv) {
  const bool tcp = argc > 1 && absl::string_view(argv[1]) == "tcp";
  const absl::Status status =
      armature::comm::RunRank(tcp ? armature::comm::Transport::kTcp : armature::comm::Transport::kAutomatic);
  if (status.ok()) return 0;
  std::cerr << status << std::endl;
  return 1;
}
