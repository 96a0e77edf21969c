// ForEachHighwayTarget: the body of a test, once for each instruction set that this processor has and that
// the kernels of armature_highway_library are compiled for.
#ifndef ARMATURE_OPTIM_TESTING_HIGHWAY_TARGETS_H_
#define ARMATURE_OPTIM_TESTING_HIGHWAY_TARGETS_H_

#include "absl/functional/function_ref.h"

namespace armature {

// Not thread-safe: the choice of target is the process's. Failures inside are traced with the target's name.
void ForEachHighwayTarget(absl::FunctionRef<void()> body);

}  // namespace armature

#endif  // ARMATURE_OPTIM_TESTING_HIGHWAY_TARGETS_H_
