#ifndef ARMATURE_LAYERS_ATTENTION_H_
#define ARMATURE_LAYERS_ATTENTION_H_

#include <string>

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"
#include "armature/layers/parallel/parallel_linear.h"

namespace armature {

struct SelfAttentionOptions {
  int64_t hidden = 0;
  int64_t heads = 1;  // hidden must be divisible by it
  bool causal = true;
  double dropout = 0;  // of the attention weights
  Initializer init = Initializer::Normal(0.02);
  Initializer projection_init = Initializer::Normal(0.02);  // of the output projection
  // Names of the two linears below the layer's scope.
  std::string qkv_name = "c_attn";
  std::string projection_name = "c_proj";
};

// Multi-head self-attention with a fused q, k, v projection: projection(attention(qkv(x))). Each
// rank of the tensor axis has whole heads.
//
// Parameters:  qkv [hidden, 3 hidden] as [q | k | v] with bias, projection [hidden, hidden] with bias
// Shapes:      x [samples, positions, hidden], or a slice of the positions -> x's
// Errors:      InvalidArgument, at build, if hidden is not divisible by heads, or heads by the tensor size.
// Reference:   Vaswani et al., "Attention is all you need" (2017).
class SelfAttention {
 public:
  SelfAttention(ModuleBuilder builder, const SelfAttentionOptions& options);
  Tensor operator()(Context& context, const Tensor& x) const;

 private:
  int64_t heads_;  // of this rank
  int64_t first_head_;
  bool causal_;
  double dropout_;
  int64_t layer_;
  ColumnParallelLinear qkv_;
  RowParallelLinear projection_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_ATTENTION_H_
