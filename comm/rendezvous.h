// How a process learns its place in the world, and finds the store through which the ranks meet.
//
//   | launcher         | rank, size, place on the host                       | meeting point |
//   |------------------|-----------------------------------------------------|-------------------------------|
//   | torchrun,        | RANK, WORLD_SIZE, LOCAL_RANK                        | MASTER_ADDR, MASTER_PORT | |
//   armature launch  |                                                     |                               |
//   | Open MPI         | OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK            | as above; else this host, if |
//   |                  |                                                     | all ranks are on it | | Slurm
//   (srun)     | SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID   | as above; else the step's     | | | |
//   first node                    | | none             | 0, 1, 0 | inproc                        |
//
// ARMATURE_RENDEZVOUS, if set, is the meeting point under every launcher: "tcp://host:port" or
// "file:///folder". A port that nobody gives is made from the job's number. If torchrun's agent keeps
// MASTER_PORT for a store of its own (TORCHELASTIC_USE_AGENT_STORE=True), the next port is taken.
#ifndef ARMATURE_COMM_RENDEZVOUS_H_
#define ARMATURE_COMM_RENDEZVOUS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

struct ProcessPlace {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;
  // "inproc", "tcp://host:port" or "file:///folder".
  std::string rendezvous = "inproc";
  // "torchrun", "Open MPI", "Slurm" or "none".
  std::string launcher = "none";
};

// `get_environment` is getenv, or a test's: it returns null for what is not set. Nothing else in the library
// looks at the environment. Errors: InvalidArgument naming the variable that is absent, no number, or out of
// range.
absl::StatusOr<ProcessPlace> PlaceFromEnvironment(
    const std::function<const char*(const char*)>& get_environment);

// The store of a meeting point. Rank 0 serves a tcp one, and must outlive the others' use of it. "inproc" is
// a fresh store for a world of one. Errors: InvalidArgument if `rendezvous` is none of the forms, or inproc
// for several ranks; Unavailable; DeadlineExceeded naming the address.
absl::StatusOr<std::shared_ptr<Store>> OpenRendezvous(const ProcessPlace& place, absl::Time deadline);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_RENDEZVOUS_H_
