#ifndef ARMATURE_LAYERS_RECOMPUTE_H_
#define ARMATURE_LAYERS_RECOMPUTE_H_

#include <functional>

#include "absl/strings/string_view.h"
#include "armature/layers/block.h"

namespace armature {

// What is computed from its inputs, parameters and the batch alone: run twice, it gives the same bits.
using Computation = std::function<Activations(Context&, const Activations&)>;

// Activation checkpointing: run(context, in), of which the tape keeps only `in`. The backward runs it again,
// with the same random numbers, and so gives the same gradients bit for bit. What `run` refers to must live
// until then.
//
// Memory:  saves the inputs; during its backward, what `run` saves.
// Errors:  those of `run`.
// Reference: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).
Activations Recompute(Context& context, const Activations& in, Computation run);
// The same of block.Forward.
Activations Recompute(Context& context, const Activations& in, const Block& block);

// A part of a block, under a name by which a configuration may choose to recompute it: run(context, x),
// recomputed if context.Recomputes(part).
Tensor RunPart(Context& context, absl::string_view part, const Tensor& x,
               const std::function<Tensor(Context&, const Tensor&)>& run);

}  // namespace armature

#endif  // ARMATURE_LAYERS_RECOMPUTE_H_
