// Gates at the borders of a block: they let a parameter source know when a block begins and ends to use its
// parameters, on the way forward and on the way back.
#ifndef ARMATURE_ENGINE_BLOCK_GATES_H_
#define ARMATURE_ENGINE_BLOCK_GATES_H_

#include <functional>

#include "armature/layers/block.h"

namespace armature {

// The same activations; on the way back `on_backward` is called before their gradients are handed on, and
// fails the backward if it does not return OK.
Activations Gate(Context& context, const Activations& in, std::function<absl::Status()> on_backward);

// block.Forward, or `run`, with the parameters of block number `index` at hand while it runs and while its
// backward runs.
Activations RunGated(Context& context, ParameterSource& parameters, int index, const Activations& in,
                     const std::function<Activations(const Activations&)>& run);

}  // namespace armature

#endif  // ARMATURE_ENGINE_BLOCK_GATES_H_
