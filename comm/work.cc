#include "armature/comm/work.h"

namespace armature {
namespace comm {

Work::Work(Work&& other) noexcept : pending_(std::move(other.pending_)), result_(std::move(other.result_)) {
  other.pending_ = nullptr;
  other.result_ = absl::OkStatus();
}

Work& Work::operator=(Work&& other) noexcept {
  if (this == &other) return *this;
  Start();
  pending_ = std::move(other.pending_);
  result_ = std::move(other.result_);
  other.pending_ = nullptr;
  other.result_ = absl::OkStatus();
  return *this;
}

Work::~Work() { Start(); }

void Work::Start() {
  if (pending_ != nullptr) pending_->Start();
}

bool Work::done() { return pending_ == nullptr || pending_->done(); }

absl::Status Work::Wait(absl::Time deadline) {
  if (pending_ == nullptr) return result_;
  result_ = pending_->Wait(deadline);
  pending_ = nullptr;
  return result_;
}

}  // namespace comm
}  // namespace armature
