// PrefetchingSource: another source, read ahead by one thread, so that reading hides behind training.
//
// Batches, errors and the end arrive in the order of the source underneath. Position() is that of what the
// caller has taken, not of what was read ahead: a checkpoint made at any moment resumes without losing or
// repeating a batch.
#ifndef ARMATURE_DATA_PREFETCHING_SOURCE_H_
#define ARMATURE_DATA_PREFETCHING_SOURCE_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "armature/base/cancellation.h"
#include "armature/data/batch_source.h"

namespace armature {

struct PrefetchOptions {
  // Batches held ready at most; below 1 counts as 1. Changes memory and speed, never what comes.
  int64_t depth = 2;
  // Once cancelled, Next returns its reason instead of waiting. By default never.
  CancellationToken cancellation;
};

// One caller at a time, as for every source; the thread is its own affair. Destruction waits for the Next of
// the source underneath that is in progress, and for nothing else.
class PrefetchingSource final : public BatchSource {
 public:
  // Starts to read at once.
  PrefetchingSource(std::unique_ptr<BatchSource> source, const PrefetchOptions& options);
  ~PrefetchingSource() override;

  absl::StatusOr<absl::optional<Batch>> Next() override;
  std::string Position() const override;
  // Throws away what was read ahead. After an error reading goes on from where it was.
  absl::Status Restore(absl::string_view position) override;

 private:
  struct Item {
    absl::StatusOr<absl::optional<Batch>> result;
    std::string position;  // of the source underneath, after `result`

    bool is_batch() const { return result.ok() && result->has_value(); }
  };

  void Start();
  void Stop();
  void ReadAhead();

  const std::unique_ptr<BatchSource> source_;  // the thread's while it runs
  const int64_t depth_;
  const CancellationToken cancellation_;
  std::string position_;  // after the last batch that the caller took
  std::thread thread_;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<Item> ready_;
  bool stopping_ = false;

  // Last: it must be gone before what it touches.
  std::unique_ptr<CancellationCallback> wake_on_cancel_;
};

}  // namespace armature

#endif  // ARMATURE_DATA_PREFETCHING_SOURCE_H_
