// Context: everything that a forward pass may need. One for each microbatch; a layer keeps nothing between
// two calls.
//
//   Tensor Linear::operator()(Context& context, const Tensor& x) const {
//     return ops::Linear(x, context.Use(weight_), context.Use(bias_));
//   }
#ifndef ARMATURE_LAYERS_CONTEXT_H_
#define ARMATURE_LAYERS_CONTEXT_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/layers/parallel/tensor_group.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/parameter.h"
#include "armature/tensor/random.h"
#include "armature/tensor/tape.h"
#include "armature/tensor/tensor.h"

namespace armature {

// A microbatch on the device, as blocks see it.
struct MicroBatch {
  std::vector<std::pair<std::string, Tensor>> fields;  // each [samples, ...]
  int64_t samples = 0;
  int64_t first_sample = 0;  // of sample 0 in the step's whole batch, over all microbatches and ranks
};

// Not thread-safe. What it refers to must outlive it.
class Context {
 public:
  struct Options {
    ParameterSource* parameters = nullptr;
    const MicroBatch* batch = nullptr;
    Tape* tape = nullptr;   // null: nothing is recorded
    bool training = false;  // dropout is on
    uint64_t seed = 0;
    int64_t step = 0;
    TensorGroup tensor;
    // The parts of blocks that are computed again in the backward (layers/recompute.h).
    absl::Span<const std::string> recomputed_parts;
  };
  Context(Backend& backend, const Options& options) : backend_(backend), options_(options) {}

  // The same context with another tape: how recomputation runs a block twice.
  Context WithTape(Tape* tape) const;

  // A parameter's weights: the single door through which sharding, mixed precision, tied weights and
  // gradients come in.
  Tensor Use(ParameterId id);
  // A field of the microbatch. Failed with NotFound if the batch has none of that name.
  Tensor Input(absl::string_view name) const;
  bool HasInput(absl::string_view name) const;

  // Which random numbers the elements of a tensor [samples, rows, cols] get in layer `layer` of this step.
  // `row_offset` is that of its first row in the whole tensor, where this rank holds a slice of the rows.
  RandomRegion Dropout(int64_t layer, int64_t rows, int64_t cols, int64_t row_offset = 0) const;

  // The ranks that share each layer's work, of which this is one.
  const TensorGroup& tensor() const { return options_.tensor; }
  Tape* tape() const { return options_.tape; }
  bool Recomputes(absl::string_view part) const;
  bool training() const { return options_.training; }
  const MicroBatch& batch() const { return *options_.batch; }
  Backend& backend() const { return backend_; }

 private:
  const Tensor* Find(absl::string_view name) const;

  Backend& backend_;
  Options options_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_CONTEXT_H_
