#include <iostream>

#include "armature/base/status_macros.h"
#include "armature/data/byte_tokenizer.h"
#include "armature/data/prepare.h"
#include "armature/tools/commands.h"

namespace armature {

absl::Status Run(const PrepareCommand& command, FileSystem& files) {
  PrepareOptions options;
  options.inputs = command.inputs;
  options.train_path = command.train_path;
  options.validation_path = command.validation_path;
  options.validation_fraction = command.validation_path.empty() ? 0 : command.validation_fraction;
  ARMATURE_ASSIGN_OR_RETURN(const PrepareResult result, PrepareTokenFiles(files, ByteTokenizer(), options));
  std::cout << result.train_tokens << " tokens to " << options.train_path;
  if (result.validation_tokens > 0) {
    std::cout << ", " << result.validation_tokens << " tokens to " << options.validation_path;
  }
  std::cout << std::endl;
  return absl::OkStatus();
}

}  // namespace armature
