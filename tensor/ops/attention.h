#ifndef ARMATURE_TENSOR_OPS_ATTENTION_H_
#define ARMATURE_TENSOR_OPS_ATTENTION_H_

#include "armature/tensor/random.h"
#include "armature/tensor/tensor.h"

namespace armature {
namespace ops {

struct AttentionOptions {
  int64_t heads = 1;
  // Fewer key/value heads than query heads: each serves heads / kv_heads of them (grouped-query attention).
  // 0: as many as heads.
  int64_t kv_heads = 0;
  // 0: 1 / sqrt(head dimension).
  double scale = 0;
  // A query sees only keys at its own and earlier positions, counted from the ends.
  bool causal = false;
  // i32 [batch, query length] and [batch, key length], both or neither: a query sees a key only if their
  // numbers are equal. Padding: 1 for every query, the attention mask for keys. Packed documents: the
  // document's number for both.
  Tensor q_segments, kv_segments;
  // Probability of dropping an attention weight; numbers come from `random_key`, sample `first_sample` + s
  // and head `head_offset` + h, so that a mask does not depend on how samples and heads are laid out over
  // ranks.
  double dropout = 0;
  RandomKey random_key;
  int64_t first_sample = 0;
  int64_t head_offset = 0;
};

// Scaled dot-product attention: softmax(scale q k^T + mask) v for each sample and head. The score matrix is
// never stored. A query that sees no key gives 0 and has gradient 0.
//
// Shapes:  q [batch, queries, heads, dim], k and v [batch, keys, kv_heads, dim] -> q's
// DTypes:  f32, f16, bf16, f64; softmax in f32 (f64 for f64).
// Errors:  InvalidArgument if shapes, dtypes, heads or segments don't fit, or dropout is not in [0, 1].
// Memory:  saves q, k, v, the result, and one number per query and head.
// Reference: Vaswani et al., "Attention is all you need" (2017); Dao, "FlashAttention-2" (2023).
Tensor Attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options);

// The same with q, k and v side by side, as one fused projection gives them, without a copy.
//
// Shapes:  qkv [batch, positions, (heads + 2 kv_heads) * dim] -> [batch, positions, heads * dim]
Tensor SelfAttention(const Tensor& qkv, const AttentionOptions& options);

}  // namespace ops
}  // namespace armature

#endif  // ARMATURE_TENSOR_OPS_ATTENTION_H_
