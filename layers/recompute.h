#ifndef ARMATURE_LAYERS_RECOMPUTE_H_
#define ARMATURE_LAYERS_RECOMPUTE_H_

#include "armature/layers/block.h"

namespace armature {

// Activation checkpointing: block.Forward(context, in), of which the tape keeps only `in`. The backward runs
// the block again, with the same random numbers, and so gives the same gradients bit for bit.
//
// Memory:  saves the inputs; during the block's backward, what the block saves.
// Errors:  those of the block.
// Reference: Chen, Xu, Zhang, Guestrin, "Training deep nets with sublinear memory cost" (2016).
Activations Recompute(Context& context, const Activations& in, const Block& block);

}  // namespace armature

#endif  // ARMATURE_LAYERS_RECOMPUTE_H_
