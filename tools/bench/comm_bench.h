// Measures collectives the way nccl-tests does: `armature bench comm`.
//
//   #       size        count  dtype  redop     time(us)  algbw(GB/s)  busbw(GB/s)  #wrong
//       25000000      6250000    f32    sum       2100.0        11.90        11.90       0
//
// algbw is size / time; busbw is algbw times the factor that makes it comparable with the hardware's rate
// whatever the number of ranks: 2 (P-1)/P for all-reduce, (P-1)/P for reduce-scatter, all-gather, all-to-all,
// gather and scatter, 1 for broadcast and reduce.
#ifndef ARMATURE_TOOLS_BENCH_COMM_BENCH_H_
#define ARMATURE_TOOLS_BENCH_COMM_BENCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "armature/comm/communicator.h"

namespace armature {
namespace bench {

struct CommBenchOptions {
  // "inproc", "shm" or "gloo": ranks are threads of this process.
  std::string backend = "inproc";
  int ranks = 2;
  // "all-reduce", "reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "gather", "scatter".
  std::string op = "all-reduce";
  DType dtype = DType::kF32;
  comm::ReduceOp reduce_op = comm::ReduceOp::kSum;
  // Sizes from first to last, each `factor` times the one before. Bytes of the whole, as in nccl-tests.
  int64_t first_bytes = 4 << 10;
  int64_t last_bytes = 128 << 20;
  int64_t factor = 2;
  // Each size is repeated for about this long and at least 5 times, after 2 unmeasured calls; the median
  // counts.
  absl::Duration time_per_size = absl::Milliseconds(300);
};

struct CommBenchRow {
  int64_t size_bytes = 0;
  int64_t count = 0;
  DType dtype = DType::kF32;
  comm::ReduceOp reduce_op = comm::ReduceOp::kSum;
  double time_us = 0;
  double algorithm_gb_per_s = 0;
  double bus_gb_per_s = 0;
  int64_t wrong_elements = 0;  // over all ranks
};

// One rank's part, on a group that exists: every rank gets the same rows.
// Errors: InvalidArgument naming the option; the group's.
absl::StatusOr<std::vector<CommBenchRow>> MeasureComm(comm::Communicator& comm,
                                                      const CommBenchOptions& options);

// Makes the group of options.backend and measures it.
absl::StatusOr<std::vector<CommBenchRow>> RunCommBench(const CommBenchOptions& options);

// GB/s at which `threads` threads add two arrays of `size_bytes` f32 into both, each its share: what an
// in-process all-reduce of two ranks can reach at most. As busbw, size over time.
double MeasurePlainAdd(int threads, int64_t size_bytes);

std::string FormatCommTable(absl::Span<const CommBenchRow> rows);
// An array of objects, one for each row.
std::string FormatCommJson(absl::Span<const CommBenchRow> rows);

}  // namespace bench
}  // namespace armature

#endif  // ARMATURE_TOOLS_BENCH_COMM_BENCH_H_
