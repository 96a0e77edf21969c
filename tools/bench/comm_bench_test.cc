#include "armature/tools/bench/comm_bench.h"

#include "armature/base/status_matchers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace bench {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

CommBenchOptions Quick() {
  CommBenchOptions options;
  options.first_bytes = 1000;
  options.last_bytes = 100000;
  options.factor = 10;
  options.time_per_size = absl::Milliseconds(1);
  return options;
}

TEST(CommBench, MeasuresEveryOperationWithoutAWrongElement) {
  for (const char* backend : {"inproc", "shm", "gloo"}) {
    for (const char* op : {"all-reduce", "reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast",
                           "gather", "scatter"}) {
      CommBenchOptions options = Quick();
      options.backend = backend;
      options.op = op;
      ASSERT_OK_AND_ASSIGN(std::vector<CommBenchRow> rows, RunCommBench(options));
      ASSERT_THAT(rows, SizeIs(3));
      for (const CommBenchRow& row : rows) {
        EXPECT_EQ(row.wrong_elements, 0) << backend << " " << op;
        EXPECT_GT(row.algorithm_gb_per_s, 0) << backend << " " << op;
      }
    }
  }
}

TEST(CommBench, BusBandwidthIsNcclTestss) {
  CommBenchOptions options = Quick();
  options.ranks = 4;
  ASSERT_OK_AND_ASSIGN(std::vector<CommBenchRow> rows, RunCommBench(options));
  EXPECT_NEAR(rows[0].bus_gb_per_s / rows[0].algorithm_gb_per_s, 1.5, 1e-9);
}

TEST(CommBench, PrintsATableAndJson) {
  CommBenchRow row;
  row.size_bytes = 4096;
  row.count = 1024;
  row.time_us = 4;
  row.algorithm_gb_per_s = 1.024;
  row.bus_gb_per_s = 1.024;
  EXPECT_THAT(FormatCommTable({&row, 1}),
              HasSubstr("4096         1024    f32    sum          4.0         1.02"));
  EXPECT_EQ(FormatCommJson({&row, 1}),
            "[\n  {\"size_bytes\": 4096, \"count\": 1024, \"dtype\": \"f32\", \"redop\": \"sum\", "
            "\"time_us\": 4.000, "
            "\"algbw_gb_per_s\": 1.0240, \"busbw_gb_per_s\": 1.0240, \"wrong\": 0}\n]\n");
}

TEST(CommBench, RefusesWhatItCantMeasure) {
  for (const auto& [backend, op, ranks] :
       {std::make_tuple("mpi", "all-reduce", 2), std::make_tuple("inproc", "sum", 2),
        std::make_tuple("shm", "all-reduce", 0)}) {
    CommBenchOptions options = Quick();
    options.backend = backend;
    options.op = op;
    options.ranks = ranks;
    EXPECT_THAT(RunCommBench(options), StatusIs(absl::StatusCode::kInvalidArgument));
  }
}

}  // namespace
}  // namespace bench
}  // namespace armature
