// armature bench ops: the rate of each kernel at the sizes of GPT-2 small, beside what copying memory and
// multiplying matrices reach in the same run.
#ifndef ARMATURE_TOOLS_BENCH_OPS_H_
#define ARMATURE_TOOLS_BENCH_OPS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "armature/base/file_system.h"

namespace armature {

struct BenchOpsCommand {
  int64_t tokens = 1024;  // rows
  int threads = 0;        // 0: the machine's
  bool json = false;      // one object a line
};

// Prints a row an operation: milliseconds (the median), GB/s of memory that it must move or GFLOP/s of its
// products, and the share of the copy's or the product's rate.
absl::Status Run(const BenchOpsCommand& command, FileSystem& files);

}  // namespace armature

#endif  // ARMATURE_TOOLS_BENCH_OPS_H_
