// ConnectProcesses: a group of processes, wherever they run.
//
//   ARMATURE_ASSIGN_OR_RETURN(ProcessPlace place, PlaceFromEnvironment(getenv));        // comm/rendezvous.h
//   ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Store> store, OpenRendezvous(place, deadline));
//   ARMATURE_ASSIGN_OR_RETURN(auto world, ConnectProcesses(store, place.rank, place.world_size));
//
// Processes of one host meet in shared memory, others over TCP. Sub-groups choose anew: a tensor group within
// a host of a larger world goes through shared memory.
#ifndef ARMATURE_COMM_PROCESS_GROUP_H_
#define ARMATURE_COMM_PROCESS_GROUP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "armature/comm/communicator.h"
#include "armature/comm/group_options.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

enum class Transport {
  kAutomatic,     // shared memory if all ranks can share it and the host has enough; else TCP
  kSharedMemory,  // errors if they can't
  kTcp
};

struct ProcessGroupOptions {
  GroupOptions group;
  Transport transport = Transport::kAutomatic;
  // The name or address by which the other ranks reach this host. Empty: 127.0.0.1 if all ranks share this
  // host's network, else the address that the host's name has, else its first address that is not loopback.
  std::string address;
};

// A collective over the ranks, which meet through fresh keys of `store`.
// Errors: InvalidArgument if rank or size is out of range; DeadlineExceeded or Unavailable naming the rank;
// ResourceExhausted if shared memory was asked for and is too small.
absl::StatusOr<std::unique_ptr<Communicator>> ConnectProcesses(std::shared_ptr<Store> store, int rank,
                                                               int size,
                                                               const ProcessGroupOptions& options = {});

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_PROCESS_GROUP_H_
