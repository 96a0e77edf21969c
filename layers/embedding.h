#ifndef ARMATURE_LAYERS_EMBEDDING_H_
#define ARMATURE_LAYERS_EMBEDDING_H_

#include "armature/layers/context.h"
#include "armature/layers/module_builder.h"

namespace armature {

// A table of vectors, one for each token. The ranks of the tensor axis share out its rows.
//
// Parameters:  weight [rows, n], split along its rows, padded where the ranks don't divide them
// Shapes:      ids [...] (i32, in [0, rows)) -> [..., n], or with sequence parallelism this rank's slice of
// it
class Embedding {
 public:
  Embedding(ModuleBuilder builder, int64_t rows, int64_t n,
            const Initializer& init = Initializer::Normal(0.02));
  Tensor operator()(Context& context, const Tensor& ids) const;

 private:
  int64_t first_row_;
  ParameterId weight_;
};

// A learned vector for each position, added to a sequence.
//
// Parameters:  weight [max_positions, n]
// Shapes:      x [samples, positions, n], or a slice of the positions -> x's
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

}  // namespace armature

#endif  // ARMATURE_LAYERS_EMBEDDING_H_
