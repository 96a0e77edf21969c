#include "armature/layers/attention.h"

#include "absl/strings/str_cat.h"
#include "armature/tensor/ops/attention.h"

namespace armature {
namespace {

LinearOptions Projection(int64_t in, int64_t out, const Initializer& init) {
  LinearOptions options;
  options.in = in;
  options.out = out;
  options.init = init;
  return options;
}

// Heads of one rank.
int64_t LocalHeads(ModuleBuilder& builder, const SelfAttentionOptions& options) {
  if (options.heads < 1 || options.hidden % options.heads != 0) {
    builder.Fail(absl::InvalidArgumentError(
        absl::StrCat("hidden ", options.hidden, " is not divisible by ", options.heads, " attention heads")));
  } else if (options.heads % builder.tensor_size() != 0) {
    builder.Fail(absl::InvalidArgumentError(absl::StrCat(
        options.heads, " attention heads are not divisible by the tensor size ", builder.tensor_size(),
        ": each rank needs whole heads; choose a tensor size that divides them")));
  }
  return options.heads / builder.tensor_size();
}

}  // namespace

SelfAttention::SelfAttention(ModuleBuilder builder, const SelfAttentionOptions& options)
    : heads_(LocalHeads(builder, options)),
      first_head_(builder.tensor_rank() * heads_),
      causal_(options.causal),
      dropout_(options.dropout),
      layer_(builder.NextLayer()),
      qkv_(builder.Scope(options.qkv_name), Projection(options.hidden, 3 * options.hidden, options.init),
           {options.hidden, options.hidden, options.hidden}),
      projection_(builder.Scope(options.projection_name),
                  Projection(options.hidden, options.hidden, options.projection_init)) {}

Tensor SelfAttention::operator()(Context& context, const Tensor& x) const {
  ops::AttentionOptions options;
  options.heads = heads_;
  options.causal = causal_;
  options.dropout = context.training() ? dropout_ : 0;
  const RandomRegion region = context.Dropout(layer_, 1, 1);
  options.random_key = region.key;
  options.first_sample = region.first_sample;
  options.head_offset = first_head_;
  return projection_(context, ops::SelfAttention(qkv_(context, x), options));
}

}  // namespace armature
