#include "armature/layers/vocabulary_head.h"

#include "armature/layers/parallel/collectives.h"
#include "armature/layers/parallel/cross_entropy.h"
#include "armature/tensor/ops/linear.h"

namespace armature {

VocabularyHead::VocabularyHead(ModuleBuilder builder, const VocabularyHeadOptions& options)
    : vocabulary_(options.vocabulary), has_bias_(options.bias) {
  const Shape shape{options.vocabulary, options.hidden};
  const Sharding rows = builder.SplitPadded(0);
  weight_ = options.tied_to.empty() ? builder.Parameter("weight", shape, options.init, rows)
                                    : builder.Tied(options.tied_to, shape, options.init, rows);
  if (has_bias_) bias_ = builder.Parameter("bias", {vocabulary_}, Initializer::Constant(0), rows);
}

Tensor VocabularyHead::Logits(Context& context, const Tensor& x) const {
  ops::LinearOptions options;
  options.weight_is_out_in = true;
  return ops::Linear(EnterRegion(context.tensor(), x), context.Use(weight_),
                     has_bias_ ? context.Use(bias_) : Tensor(), options);
}

Tensor VocabularyHead::operator()(Context& context, const Tensor& x) const {
  return GatherFromTensorAxis(context.tensor(), Logits(context, x), -1, vocabulary_);
}

Tensor VocabularyHead::Loss(Context& context, const Tensor& x, const Tensor& targets,
                            double smoothing) const {
  ops::CrossEntropyOptions options;
  options.classes = vocabulary_;
  options.smoothing = smoothing;
  // No name keeps the logits, so that the loss may reuse their memory for the gradient.
  return ParallelCrossEntropy(context.tensor(), Logits(context, x), targets, options);
}

}  // namespace armature
