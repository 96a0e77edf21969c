// Batch: samples side by side, as named arrays whose leading dimension counts them.
//
//   Batch batch;
//   batch.fields.push_back({"tokens", std::move(tokens)});    // [batch, sequence] i32
//   batch.fields.push_back({"targets", std::move(targets)});  // [batch, sequence] i32, -100 where ignored
//   ARMATURE_RETURN_IF_ERROR(batch.Validate());
#ifndef ARMATURE_DATA_BATCH_H_
#define ARMATURE_DATA_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/data/array.h"
#include "armature/tensor/ignored_target.h"

namespace armature {

struct Batch {
  struct Field {
    std::string name;
    Array array;
  };

  std::vector<Field> fields;
  // The index of the first sample in the step's global batch. It keys dropout, so that a sample draws the
  // same numbers whichever rank it lands on.
  int64_t first_sample = 0;

  // The leading extent of the first field; 0 if there is none.
  int64_t num_samples() const;

  // The array of that name, or null.
  const Array* Find(absl::string_view name) const;

  // Errors: InvalidArgument, naming the field, if there is no field, a name is empty or there twice, an array
  // is a scalar, leading extents differ, or first_sample is negative.
  absl::Status Validate() const;

  // Samples [begin, end) of a valid batch, copied; first_sample moves along.
  // Errors: OutOfRange; ResourceExhausted.
  absl::StatusOr<Batch> Slice(int64_t begin, int64_t end) const;
};

}  // namespace armature

#endif  // ARMATURE_DATA_BATCH_H_
