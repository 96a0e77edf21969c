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

}  // namespace

SelfAttention::SelfAttention(ModuleBuilder builder, const SelfAttentionOptions& options)
    : heads_(options.heads),
      causal_(options.causal),
      dropout_(options.dropout),
      layer_(builder.NextLayer()),
      qkv_(builder.Scope(options.qkv_name), Projection(options.hidden, 3 * options.hidden, options.init)),
      projection_(builder.Scope(options.projection_name),
                  Projection(options.hidden, options.hidden, options.projection_init)) {
  if (heads_ < 1 || options.hidden % heads_ != 0) {
    builder.Fail(absl::InvalidArgumentError(
        absl::StrCat("hidden ", options.hidden, " is not divisible by ", heads_, " attention heads")));
  }
}

Tensor SelfAttention::operator()(Context& context, const Tensor& x) const {
  ops::AttentionOptions options;
  options.heads = heads_;
  options.causal = causal_;
  options.dropout = context.training() ? dropout_ : 0;
  const RandomRegion region = context.Dropout(layer_, 1, 1);
  options.random_key = region.key;
  options.first_sample = region.first_sample;
  return projection_(context, ops::SelfAttention(qkv_(context, x), options));
}

}  // namespace armature
