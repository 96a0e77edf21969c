// Block: the unit of a model that pipeline cuts, sharding, recomputation and the planner speak of. A model is
// a list of blocks; a user's own model is a list of the user's own blocks (examples/custom_model).
#ifndef ARMATURE_LAYERS_BLOCK_H_
#define ARMATURE_LAYERS_BLOCK_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"
#include "armature/tensor/tensor.h"

namespace armature {

// What flows from one block to the next.
using Activations = absl::InlinedVector<Tensor, 2>;

// What one microbatch costs. Matrix products count 2 m n k; what lies between them counts nothing.
struct BlockCost {
  int64_t parameters = 0;
  double forward_flops = 0;  // a backward pass costs twice as many
  int64_t saved_bytes = 0;   // kept between the forward and the backward
};

class Block {
 public:
  virtual ~Block() = default;
  // The first block gets no activations: it reads context.Input. The last one returns one sum of losses []
  // for each of the model's loss terms, or, where the batch has no targets, its predictions. Errors ride in
  // the tensors.
  virtual Activations Forward(Context& context, const Activations& in) const = 0;
  // For a microbatch of `samples` samples of `positions` positions, in f32.
  virtual BlockCost Cost(int64_t samples, int64_t positions) const = 0;
};

// Called on the rank that owns the block.
using BlockBuilder = std::function<absl::StatusOr<std::unique_ptr<Block>>(ModuleBuilder)>;

// A field that every batch must have.
struct InputSpec {
  std::string name;
  DType dtype = DType::kI32;
  // Integers must lie in [0, limit); 0: any.
  int64_t limit = 0;
  // kIgnoredTarget (-100) is allowed as well.
  bool may_be_ignored = false;
  // Only training and evaluation need it: targets.
  bool only_for_loss = false;
};

// One of the sums that the last block returns: the step's loss is the sum of (the term's sum over all
// microbatches and ranks / the term's count over all of them), so never a mean of means.
struct LossTerm {
  std::string name = "loss";
  // The field whose entries other than kIgnoredTarget are counted; "": samples are counted.
  std::string counted_by;
};

struct Model {
  std::string name;
  std::vector<BlockBuilder> blocks;
  std::vector<InputSpec> inputs;
  std::vector<LossTerm> losses;
  // Names of the parts that its blocks run by RunPart (layers/recompute.h).
  std::vector<std::string> parts;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_BLOCK_H_
