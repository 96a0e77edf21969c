// Attention in f32, tile by tile: the KernelTable's entries for the CPU. Scores live in tiles of some 30 KiB;
// keys that a causal mask hides from a whole tile are skipped.
//
// The forward keeps a running maximum and sum for each query (online softmax), the backward computes the
// scores again from the saved lse. Threads share the forward by (sample, head, block of queries), the
// backward by (sample, key head).
//
// Memory: packed copies of a head, for each thread 2 kv_len dim floats forward and 5 kv_len dim backward, dim
// rounded up to two vectors. Errors: ResourceExhausted if there is no memory for those. Reference: Dao,
// "FlashAttention-2" (2023).
#ifndef ARMATURE_TENSOR_CPU_ATTENTION_KERNELS_H_
#define ARMATURE_TENSOR_CPU_ATTENTION_KERNELS_H_

#include "absl/status/status.h"
#include "armature/tensor/kernels.h"

namespace armature {
namespace cpu {

absl::Status Attention(Stream& stream, const AttentionArgs& args);
absl::Status AttentionBackward(Stream& stream, const AttentionBackwardArgs& args);

}  // namespace cpu
}  // namespace armature

#endif  // ARMATURE_TENSOR_CPU_ATTENTION_KERNELS_H_
