// GPT-2 as a block list: an embedding, `layers` transformer blocks, and a head tied to the embedding.
//
//   Gpt2Config config = Gpt2Small();
//   ARMATURE_ASSIGN_OR_RETURN(Model model, MakeGpt2(config));
//
// Parameters have the names and the layout of the public checkpoints ("h.0.attn.c_attn.weight" is [in, out]).
// Batches have "tokens" i32 [samples, positions] and, to train or evaluate, "targets" like it: the next
// tokens, -100 where none counts. Without targets the model predicts: logits [samples, positions,
// vocabulary].
//
// Reference: Radford et al., "Language models are unsupervised multitask learners" (2019).
#ifndef ARMATURE_MODELS_GPT2_H_
#define ARMATURE_MODELS_GPT2_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "armature/layers/block.h"

namespace armature {

struct Gpt2Config {
  int64_t vocabulary = 50257;
  int64_t max_positions = 1024;
  int64_t hidden = 768;
  int64_t layers = 12;
  int64_t heads = 12;
  double dropout = 0.1;  // of embeddings, attention weights and residual branches
  double norm_eps = 1e-5;
  double init_stddev = 0.02;  // projections into the residual stream: divided by sqrt(2 layers)
  double label_smoothing = 0;
};

// 124,439,808, 354,823,168, 774,030,080 and 1,557,611,200 parameters.
Gpt2Config Gpt2Small();
Gpt2Config Gpt2Medium();
Gpt2Config Gpt2Large();
Gpt2Config Gpt2Xl();

// Errors: InvalidArgument naming the field that is out of range.
absl::StatusOr<Model> MakeGpt2(const Gpt2Config& config);

}  // namespace armature

#endif  // ARMATURE_MODELS_GPT2_H_
