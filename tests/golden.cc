// golden --dir=PATH [layout flags]: a training run against recorded reference values (golden_run.h). One JSON
// object a line; exit code 1 past the tolerance, 2 if the run could not be made.
#include <iostream>
#include <string>

#include "CLI/CLI.hpp"
#include "armature/tests/golden_run.h"

int main(int argc, char** argv) {
  std::string directory;
  armature::GoldenLayout layout;
  CLI::App app{"Trains a small model on recorded batches and compares each step with reference values."};
  app.add_option("--dir", directory, "directory with trace.json and its safetensors files")->required();
  app.add_option("--data", layout.data, "data-parallel ranks");
  app.add_option("--tensor", layout.tensor, "tensor-parallel ranks");
  app.add_option("--pipeline", layout.pipeline, "pipeline stages");
  app.add_option("--sharding", layout.sharding, "ZeRO stage, 0 to 3");
  app.add_flag("--sequence_parallel", layout.sequence_parallel, "sequence parallelism");
  app.add_option("--schedule", layout.schedule, "ONE_F_ONE_B, GPIPE, INTERLEAVED or ZERO_BUBBLE");
  app.add_option("--microbatches", layout.microbatches, "pieces of each batch");
  app.add_flag("--recompute", layout.recompute, "activation checkpointing of each block");
  app.add_flag("--reproducible", layout.reproducible, "canonical order of sums");
  CLI11_PARSE(app, argc, argv);
  const absl::StatusOr<armature::GoldenErrors> errors =
      armature::RunGolden(directory, layout, [](const std::string& line) { std::cout << line << std::endl; });
  if (!errors.ok()) {
    std::cerr << "golden: " << errors.status() << std::endl;
    return 2;
  }
  return errors->ok() ? 0 : 1;
}
