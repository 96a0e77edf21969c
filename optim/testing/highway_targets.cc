#include "armature/optim/testing/highway_targets.h"

#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace armature {

void ForEachHighwayTarget(absl::FunctionRef<void()> body) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace armature
