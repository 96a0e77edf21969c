// The directory that checkpoints live in, and the moves that make and remove one at a stroke.
//
//   step-00000120           complete: it got this name by one rename, after every byte of it had reached the
//   disk step-00000180.partial   being written, or being removed; no checkpoint step-00000120.old replaced by
//   step-00000120; counts as step 120 as long as that is absent LOCK                    held by the one
//   writer
//
// A crash between any two operations leaves each complete step complete.
#ifndef ARMATURE_CHECKPOINT_STEP_DIRECTORIES_H_
#define ARMATURE_CHECKPOINT_STEP_DIRECTORIES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/base/file_system.h"

namespace armature {

struct StepListing {
  std::map<int64_t, std::string> complete;  // step -> name of its directory
  std::vector<std::string> leftovers;       // names of what interrupted writers left; sorted
};

// Errors: those of FileSystem::List.
absl::StatusOr<StepListing> ListSteps(FileSystem& files, absl::string_view root);

// "step-00000120".
std::string StepName(int64_t step);
// "step-00000120.partial".
std::string PartialName(int64_t step);

// Turns the partial directory of `step`, whose files are synced, into the step's. One that has the name
// already is replaced.
absl::Status PublishStep(FileSystem& files, absl::string_view root, int64_t step);

// Removes the directory `name` of a complete step: it first becomes a partial one.
absl::Status RemoveStep(FileSystem& files, absl::string_view root, int64_t step, absl::string_view name);

}  // namespace armature

#endif  // ARMATURE_CHECKPOINT_STEP_DIRECTORIES_H_
