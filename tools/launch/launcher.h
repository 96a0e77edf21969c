// Launch: several processes of one command on this host, as `armature launch --processes=N -- COMMAND` does.
//
// Each gets torchrun's environment (RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR,
// MASTER_PORT), its lines of output are prefixed with its rank, and when one fails the others are ended. If
// the launcher itself dies, they die.
#ifndef ARMATURE_TOOLS_LAUNCH_LAUNCHER_H_
#define ARMATURE_TOOLS_LAUNCH_LAUNCHER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace armature {
namespace launch {

struct LaunchOptions {
  int processes = 1;
  // The program, found on PATH unless it has a slash, and its arguments.
  std::vector<std::string> command;
  std::string master_address = "127.0.0.1";
  // 0 takes a free port of this host.
  int master_port = 0;
  // Lines go out as "[3] text". False passes bytes on as they come.
  bool prefix_output = true;
  // File descriptors that the processes' output goes to.
  int output_fd = 1;
  int error_fd = 2;
  // How long processes that are told to end (SIGTERM) have before they are killed.
  absl::Duration grace = absl::Seconds(10);
};

struct LaunchResult {
  // 0 if all processes succeeded; else the code of the first that failed, or 128 + the signal that ended it.
  int exit_code = 0;
  // -1 if none failed.
  int failed_rank = -1;
  // "rank 2 exited with code 7", "rank 0 was killed by signal 9 (Killed)"; empty if none failed.
  std::string why;
};

// Runs until all have ended. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 of this process are passed on to
// all of them meanwhile, if no other thread takes them. Call it from a process without other children.
// Errors: InvalidArgument on bad options; NotFound naming the program; Unavailable if a process can't be
// started.
absl::StatusOr<LaunchResult> Launch(const LaunchOptions& options);

}  // namespace launch
}  // namespace armature

#endif  // ARMATURE_TOOLS_LAUNCH_LAUNCHER_H_
