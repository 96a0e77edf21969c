// The commands of the `armature` program: options as plain structs, errors as values. armature.cc reads the
// command line.
#ifndef ARMATURE_TOOLS_COMMANDS_H_
#define ARMATURE_TOOLS_COMMANDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "armature/base/file_system.h"

namespace armature {

// armature prepare: text files to token files, a token for each byte.
struct PrepareCommand {
  std::vector<std::string> inputs;
  std::string train_path;
  std::string validation_path;
  double validation_fraction = 0.05;
};
absl::Status Run(const PrepareCommand& command, FileSystem& files);

// armature train: goes on from the newest checkpoint if there is one.
struct TrainCommand {
  std::string config_path;
  std::vector<std::string> assignments;  // path=value
  bool fresh = false;                    // refuses to go on from a checkpoint
};
absl::Status Run(const TrainCommand& command, FileSystem& files);

// armature sample: prints text that the model of the newest checkpoint continues a prompt with.
struct SampleCommand {
  std::string config_path;
  std::vector<std::string> assignments;
  std::string prompt = "\n";
  int64_t length = 200;      // tokens
  double temperature = 0.8;  // 0: always the likeliest token
  int64_t top_k = 0;         // only among the k likeliest; 0: all
  uint64_t seed = 0;
};
absl::Status Run(const SampleCommand& command, FileSystem& files);

}  // namespace armature

#endif  // ARMATURE_TOOLS_COMMANDS_H_
