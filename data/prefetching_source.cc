#include "armature/data/prefetching_source.h"

#include <algorithm>
#include <utility>

namespace armature {

PrefetchingSource::PrefetchingSource(std::unique_ptr<BatchSource> source, const PrefetchOptions& options)
    : source_(std::move(source)),
      depth_(std::max<int64_t>(1, options.depth)),
      cancellation_(options.cancellation),
      position_(source_->Position()) {
  wake_on_cancel_ = std::make_unique<CancellationCallback>(cancellation_, [this](const absl::Status&) {
    std::lock_guard<std::mutex> lock(mutex_);
    changed_.notify_all();
  });
  Start();
}

PrefetchingSource::~PrefetchingSource() { Stop(); }

void PrefetchingSource::Start() {
  thread_ = std::thread([this] { ReadAhead(); });
}

void PrefetchingSource::Stop() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
  stopping_ = false;
}

void PrefetchingSource::ReadAhead() {
  const auto may_read = [this] {
    // Nothing is read behind an error or the end before the caller has seen it.
    return static_cast<int64_t>(ready_.size()) < depth_ && (ready_.empty() || ready_.back().is_batch());
  };
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || may_read(); });
    if (stopping_) return;
    lock.unlock();
    absl::StatusOr<absl::optional<Batch>> result = source_->Next();
    std::string position = source_->Position();
    lock.lock();
    ready_.push_back({std::move(result), std::move(position)});
    changed_.notify_all();
  }
}

absl::StatusOr<absl::optional<Batch>> PrefetchingSource::Next() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return cancellation_.cancelled() || !ready_.empty(); });
  if (cancellation_.cancelled()) return cancellation_.status();
  if (ready_.front().result.ok() && !ready_.front().is_batch()) return absl::nullopt;  // the end stays
  Item item = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  position_ = std::move(item.position);
  return std::move(item.result);
}

std::string PrefetchingSource::Position() const { return position_; }

absl::Status PrefetchingSource::Restore(absl::string_view position) {
  Stop();
  const absl::Status status = source_->Restore(position);
  if (status.ok()) {
    ready_.clear();
    position_ = source_->Position();
  }
  Start();
  return status;
}

}  // namespace armature
