// GroupOptions: what every backend asks of those who make a group.
#ifndef ARMATURE_COMM_GROUP_OPTIONS_H_
#define ARMATURE_COMM_GROUP_OPTIONS_H_

#include <string>

#include "absl/time/time.h"

namespace armature {
namespace comm {

struct GroupOptions {
  // In every error.
  std::string name = "world";
  // No operation, nor the making of a group, takes longer. InfiniteDuration waits for ever.
  absl::Duration timeout = absl::Minutes(10);
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_GROUP_OPTIONS_H_
