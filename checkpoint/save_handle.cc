#include "armature/checkpoint/save_handle.h"

#include <chrono>
#include <utility>

namespace armature {

SaveHandle::SaveHandle(absl::StatusOr<SaveReport> result) : SaveHandle() {
  shared_->promise.set_value(std::move(result));
}

absl::StatusOr<SaveReport> SaveHandle::Wait() const {
  const absl::StatusOr<SaveReport>& result = shared_->future.get();
  shared_->was_reported = true;
  return result;
}

bool SaveHandle::done() const {
  return shared_->future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

}  // namespace armature
