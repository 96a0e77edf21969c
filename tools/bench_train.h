// armature bench train: training steps of a preset model on random tokens, against the rate of the matrix
// products that make up the step, measured in the same run on the same threads.
#ifndef ARMATURE_TOOLS_BENCH_TRAIN_H_
#define ARMATURE_TOOLS_BENCH_TRAIN_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "armature/base/file_system.h"

namespace armature {

struct BenchTrainCommand {
  std::string preset = "gpt2-124m";
  int64_t batch = 4;
  int64_t sequence = 64;
  int threads = 0;    // 0: the machine's
  int64_t steps = 8;  // timed, after two that are not
  double dropout = 0;
  bool json = false;
};

// Prints a table, or with `json` one object: tokens_per_second, model_flops_per_second,
// matmul_flops_per_second, ratio, peak_bytes (of the allocator), peak_rss_bytes and the seconds of each part.
// Times are medians.
absl::Status Run(const BenchTrainCommand& command, FileSystem& files);

}  // namespace armature

#endif  // ARMATURE_TOOLS_BENCH_TRAIN_H_
