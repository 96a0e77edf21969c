#include "armature/comm/lockstep.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/comm/futex.h"

namespace armature {
namespace comm {
namespace {

constexpr uint32_t kFailed = 1, kLeft = 2, kStep = 4;
constexpr absl::Duration kLivenessInterval = absl::Milliseconds(50);
// Some 5 microseconds, if every rank can have a processor. Then the processor is offered to others, for the
// peer may share it, a limited number of times before sleeping.
constexpr int kSpins = 100, kYields = 100;

int ProcessorSpins(size_t ranks) { return std::thread::hardware_concurrency() >= ranks ? kSpins : 0; }

}  // namespace

Lockstep::Lockstep(int rank, absl::Span<StepWord> words, FailureRecord* record, Lives lives)
    : rank_(rank),
      words_(words),
      record_(record),
      lives_(std::move(lives)),
      spins_(ProcessorSpins(words.size())) {}

bool Lockstep::Reached(int peer, uint32_t target) const {
  const uint32_t steps = words_[peer].progress.load(std::memory_order_acquire) & ~(kFailed | kLeft);
  return static_cast<int32_t>(steps - target) >= 0;  // the count may wrap
}

absl::Status Lockstep::Arrive(absl::Time deadline, absl::FunctionRef<std::string()> doing) {
  StepWord& mine = words_[rank_];
  const uint32_t target = (mine.progress.fetch_add(kStep) & ~(kFailed | kLeft)) + kStep;
  if (mine.sleepers.load() > 0) FutexWakeAll(mine.progress);
  for (int peer = 0; peer < static_cast<int>(words_.size()); ++peer) {
    if (peer == rank_ || Reached(peer, target)) continue;
    absl::Status status = Await(peer, target, deadline, doing);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Lockstep::Await(int peer, uint32_t target, absl::Time deadline,
                             absl::FunctionRef<std::string()> doing) {
  StepWord& word = words_[peer];
  while (!Reached(peer, target)) {
    const uint32_t seen = word.progress.load(std::memory_order_acquire);
    if (Reached(peer, target)) break;
    if ((seen & kFailed) != 0) return RecordedFailure();
    if ((seen & kLeft) != 0) {
      return absl::UnavailableError(absl::StrCat(doing(), ": rank ", peer, " has left the group"));
    }
    const absl::Duration left = deadline - absl::Now();
    if (left <= absl::ZeroDuration()) {
      return absl::DeadlineExceededError(
          absl::StrCat(doing(), ": ", Missing(target), " did not arrive in time"));
    }
    const bool changed =
        WaitChange(word.progress, word.sleepers, seen, lives_ ? std::min(left, kLivenessInterval) : left);
    if (!changed && lives_ && !lives_(peer) && !Reached(peer, target)) {
      return absl::UnavailableError(absl::StrCat(doing(), ": the process of rank ", peer, " has died"));
    }
  }
  return absl::OkStatus();
}

bool Lockstep::WaitChange(const std::atomic<uint32_t>& word, std::atomic<uint32_t>& sleepers, uint32_t value,
                          absl::Duration limit) const {
  for (int spin = 0; spin < spins_; ++spin) {
    if (word.load(std::memory_order_acquire) != value) return true;
    SpinPause();
  }
  for (int yield = 0; yield < kYields; ++yield) {
    sched_yield();
    if (word.load(std::memory_order_acquire) != value) return true;
  }
  sleepers.fetch_add(1);
  if (word.load() == value) FutexWait(word, value, limit);
  sleepers.fetch_sub(1);
  return word.load(std::memory_order_acquire) != value;
}

std::string Lockstep::Missing(uint32_t target) const {
  std::string ranks;
  int count = 0;
  for (int peer = 0; peer < static_cast<int>(words_.size()); ++peer) {
    if (peer == rank_ || Reached(peer, target)) continue;
    absl::StrAppend(&ranks, count++ == 0 ? "" : ", ", peer);
  }
  return absl::StrCat(count == 1 ? "rank " : "ranks ", ranks);
}

void Lockstep::Fail(const absl::Status& why) {
  if (record_->claimed.exchange(1) == 0) {
    record_->code = static_cast<int32_t>(why.code());
    const size_t length = std::min(why.message().size(), sizeof(record_->message) - 1);
    std::memcpy(record_->message, why.message().data(), length);
    record_->ready.store(1);
  }
  for (StepWord& word : words_) {
    word.progress.fetch_or(kFailed);
    FutexWakeAll(word.progress);
  }
}

bool Lockstep::failed() const {
  return record_->ready.load() != 0 || (words_[rank_].progress.load() & kFailed) != 0;
}

absl::Status Lockstep::failure() const { return failed() ? RecordedFailure() : absl::OkStatus(); }

absl::Status Lockstep::RecordedFailure() const {
  // The first to fail may be a process that died while it wrote why.
  for (int tries = 0; tries < 100 && record_->ready.load() == 0; ++tries)
    absl::SleepFor(absl::Milliseconds(1));
  if (record_->ready.load() == 0) return absl::UnavailableError("a rank failed and died");
  return absl::Status(static_cast<absl::StatusCode>(record_->code), record_->message);
}

bool Lockstep::HasLeft(int peer) const { return (words_[peer].progress.load() & kLeft) != 0; }

void Lockstep::Leave() {
  words_[rank_].progress.fetch_or(kLeft);
  FutexWakeAll(words_[rank_].progress);
}

}  // namespace comm
}  // namespace armature
