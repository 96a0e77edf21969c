// A training run against recorded reference values: the same weights, batches and optimizer, compared step by
// step.
//
// A directory holds trace.json (the config, losses and gradient norms of each step), weights.safetensors,
// batches.safetensors, step0.safetensors (first gradients and logits) and weights_after.safetensors, in the
// form that tests/testdata/goldens/README.md describes.
#ifndef ARMATURE_TESTS_GOLDEN_RUN_H_
#define ARMATURE_TESTS_GOLDEN_RUN_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/statusor.h"

namespace armature {

// The layout to run in. What is not built yet is refused by Engine::Create, by name.
struct GoldenLayout {
  int data = 1;
  int tensor = 1;
  int pipeline = 1;
  int sharding = 0;
  bool sequence_parallel = false;
  std::string schedule;  // as in ParallelConfig.Schedule; "": the default
  int microbatches = 1;
  bool recompute = false;
  bool reproducible = false;
  // Loads attention's output projections the wrong way around, to show that the comparison would notice.
  bool transpose_square_projections = false;
};

// Largest errors: absolute for losses, relative for norms, ||a-b|| / ||b|| for the others.
struct GoldenErrors {
  double loss = 0;
  double grad_norm = 0;
  double logits = 0;
  double first_gradients = 0;
  double final_weights = 0;

  // Within: losses 2e-6, norms 5e-6, logits, gradients and weights 1e-5.
  bool ok() const;
};

// Runs all steps of the directory, with a line of JSON for each to `print`, and one with the errors at the
// end.
absl::StatusOr<GoldenErrors> RunGolden(const std::string& directory, const GoldenLayout& layout,
                                       const std::function<void(const std::string&)>& print);

}  // namespace armature

#endif  // ARMATURE_TESTS_GOLDEN_RUN_H_
