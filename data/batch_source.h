// BatchSource: where an engine gets its batches. A host may write its own.
//
//   while (true) {
//     ARMATURE_ASSIGN_OR_RETURN(absl::optional<Batch> batch, source.Next());
//     if (!batch.has_value()) break;
//     ...
//   }
#ifndef ARMATURE_DATA_BATCH_SOURCE_H_
#define ARMATURE_DATA_BATCH_SOURCE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "armature/data/batch.h"

namespace armature {

// Thread-compatible.
class BatchSource {
 public:
  virtual ~BatchSource() = default;

  // The next batch, or nothing at the end, and again nothing after it. After an error the position is
  // unchanged, and the next call tries again.
  virtual absl::StatusOr<absl::optional<Batch>> Next() = 0;

  // The place of the next batch, as a short line of text that only this kind of source need understand.
  // Checkpoints keep it.
  virtual std::string Position() const = 0;

  // Goes to a position that an equal source gave out: the batches from there on are the same, bit for bit.
  // Errors: InvalidArgument if the text is no position, FailedPrecondition if it is one of other data; then
  // nothing changed.
  virtual absl::Status Restore(absl::string_view position) = 0;
};

}  // namespace armature

#endif  // ARMATURE_DATA_BATCH_SOURCE_H_
