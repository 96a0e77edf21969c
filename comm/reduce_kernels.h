// ReduceInto: the arithmetic of every CPU reduction.
#ifndef ARMATURE_COMM_REDUCE_KERNELS_H_
#define ARMATURE_COMM_REDUCE_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "armature/comm/reduce_op.h"
#include "armature/tensor/dtype.h"

namespace armature {
namespace comm {

// ReduceInto writes sources[0][i] op sources[1][i] op ..., in that order, to targets[t][i] for every t and
// every i in [0, count).
//
// DTypes:  all, by the rules of comm/reduce_op.h. AVG divides by sources.size().
// Memory:  reads each source once and writes each target once; 8 KiB of stack. A target may be one of the
// sources;
//          otherwise sources and targets don't overlap. One source is copied bit by bit.
void ReduceInto(DType dtype, ReduceOp op, absl::Span<const void* const> sources,
                absl::Span<void* const> targets, int64_t count);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_REDUCE_KERNELS_H_
