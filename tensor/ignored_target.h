// kIgnoredTarget: the label that takes no part, as PyTorch's ignore_index.
#ifndef ARMATURE_TENSOR_IGNORED_TARGET_H_
#define ARMATURE_TENSOR_IGNORED_TARGET_H_

#include <cstdint>

namespace armature {

// A target that takes no part in losses, smoothing and counts, in files and in APIs.
constexpr int32_t kIgnoredTarget = -100;

}  // namespace armature

#endif  // ARMATURE_TENSOR_IGNORED_TARGET_H_
