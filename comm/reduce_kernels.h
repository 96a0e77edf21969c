// ReduceInto: the arithmetic of every CPU reduction.
#ifndef ARMATURE_COMM_REDUCE_KERNELS_H_
#define ARMATURE_COMM_REDUCE_KERNELS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "armature/comm/reduce_op.h"
#include "armature/tensor/dtype.h"

namespace armature {
namespace comm {

// ReduceInto writes the reduction of sources[s][i] over all s to targets[t][i] for every t and every i in
// [0, count).
//
// Order:   a balanced binary tree over the sources, ((0 1) (2 3)) ((4 5) (6 7)); the left half of n sources
//          is the largest power of two below n. So a rank that sums its own parts in such a tree before it
//          meets the others gets the bits that more ranks with fewer parts get. Halves are added one after
//          the other, in f32.
// DTypes:  all, by the rules of comm/reduce_op.h. AVG divides by sources.size().
// Memory:  reads each source once and writes each target once; 8 KiB of stack for each level of the
//          tree. A target may be one of the sources; otherwise sources and targets don't overlap. One source
//          is copied bit by bit.
void ReduceInto(DType dtype, ReduceOp op, absl::Span<const void* const> sources,
                absl::Span<void* const> targets, int64_t count);

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_REDUCE_KERNELS_H_
