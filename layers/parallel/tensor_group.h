// TensorGroup: the ranks of the tensor axis, as layers see them. They hold different parts of the same layers
// and see the same microbatch.
#ifndef ARMATURE_LAYERS_PARALLEL_TENSOR_GROUP_H_
#define ARMATURE_LAYERS_PARALLEL_TENSOR_GROUP_H_

#include <cstdint>

#include "armature/comm/communicator.h"

namespace armature {

struct TensorGroup {
  // Null: this rank is alone. Must outlive whatever the tape has recorded.
  comm::Communicator* communicator = nullptr;
  // Between tensor-parallel regions each rank holds a slice of the sequence: rank r has positions
  // [r n, (r + 1) n) of size() * n. Norms, dropout and residuals there cost 1 / size() of the work and
  // memory, and an all-gather and a reduce-scatter take the place of each all-reduce.
  // Reference: Korthikanti et al., "Reducing activation recomputation in large transformer models" (2022).
  bool sequence_parallel = false;

  int rank() const { return communicator == nullptr ? 0 : communicator->rank(); }
  int size() const { return communicator == nullptr ? 1 : communicator->size(); }
  // Which of `positions` positions, that this rank holds between regions, is the first in the whole.
  int64_t FirstPosition(int64_t positions) const { return sequence_parallel ? rank() * positions : 0; }
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_PARALLEL_TENSOR_GROUP_H_
