#ifndef ARMATURE_LAYERS_VOCABULARY_HEAD_H_
#define ARMATURE_LAYERS_VOCABULARY_HEAD_H_

#include <string>

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"

namespace armature {

struct VocabularyHeadOptions {
  int64_t vocabulary = 0;
  int64_t hidden = 0;
  // The full name of an embedding's table that is the weight as well. Empty: a weight of its own.
  std::string tied_to;
  bool bias = false;  // starts at 0
  Initializer init = Initializer::Normal(0.02);
};

// Logits over the vocabulary, x weight^T + bias, and their loss. The ranks of the tensor axis share out the
// vocabulary.
//
// Parameters:  weight [vocabulary, hidden], or the table of that shape; bias [vocabulary]; both split along
//              the vocabulary, padded where the ranks don't divide it
class VocabularyHead {
 public:
  VocabularyHead(ModuleBuilder builder, const VocabularyHeadOptions& options);

  // All logits, on every rank: predictions. Shapes: x [..., hidden] -> [..., vocabulary]
  Tensor operator()(Context& context, const Tensor& x) const;

  // The summed cross-entropy of the targets that count (ops::CrossEntropy); logits are never gathered.
  // Shapes: x [..., hidden], targets [...] -> []
  Tensor Loss(Context& context, const Tensor& x, const Tensor& targets, double smoothing = 0) const;

 private:
  // This rank's columns.
  Tensor Logits(Context& context, const Tensor& x) const;

  int64_t vocabulary_;
  bool has_bias_;
  ParameterId weight_, bias_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_VOCABULARY_HEAD_H_
