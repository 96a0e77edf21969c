#ifndef ARMATURE_LAYERS_EMBEDDING_H_
#define ARMATURE_LAYERS_EMBEDDING_H_

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"

namespace armature {

// A table of vectors, one for each token.
//
// Parameters:  weight [rows, n]
// Shapes:      ids [...] (i32, in [0, rows)) -> [..., n]
class Embedding {
 public:
  Embedding(ModuleBuilder builder, int64_t rows, int64_t n,
            const Initializer& init = Initializer::Normal(0.02));
  Tensor operator()(Context& context, const Tensor& ids) const;

 private:
  ParameterId weight_;
};

// A learned vector for each position, added to a sequence.
//
// Parameters:  weight [max_positions, n]
// Shapes:      x [samples, positions, n] -> x's
// Errors:      InvalidArgument if there are more positions than max_positions.
class LearnedPositions {
 public:
  LearnedPositions(ModuleBuilder builder, int64_t max_positions, int64_t n,
                   const Initializer& init = Initializer::Normal(0.02));
  Tensor AddTo(Context& context, const Tensor& x) const;

 private:
  int64_t max_positions_;
  ParameterId weight_;
};

// Logits over the vocabulary, by an embedding table [rows, n] that is tied: x table^T.
//
// Shapes:  x [..., n] -> [..., rows]
class TiedHead {
 public:
  // `table` is the full name of the embedding's weight.
  TiedHead(ModuleBuilder builder, absl::string_view table, int64_t rows, int64_t n,
           const Initializer& init = Initializer::Normal(0.02));
  Tensor operator()(Context& context, const Tensor& x) const;

 private:
  ParameterId table_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_EMBEDDING_H_
