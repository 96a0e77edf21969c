#include "armature/engine/json_lines_sink.h"

#include <cmath>

#include "armature/base/faulty_file_system.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "nlohmann/json.hpp"

namespace armature {
namespace {

using ::testing::HasSubstr;

StepResult Example() {
  StepResult step;
  step.step = 7;
  step.loss = 2.5;
  step.losses = {{"loss", 2.5}};
  step.grad_norm = 0.5;
  step.learning_rate = 1e-3;
  step.tokens = 100;
  step.duration = absl::Milliseconds(500);
  return step;
}

TEST(JsonLinesSink, AStepIsOneLine) {
  EXPECT_EQ(ToJson(Example()), R"({"step":7,"loss":2.5,"grad_norm":0.5,"learning_rate":0.001,"tokens":100,)"
                               R"("tokens_per_second":200.0,"step_seconds":0.5,"skipped":false})");
}

TEST(JsonLinesSink, TermsReasonsAndNumbersThatAreNotFinite) {
  StepResult step = Example();
  step.loss = NAN;
  step.losses = {{"next", 1.5}, {"mask", INFINITY}};
  step.skipped = true;
  step.skip_reason = "say \"why\"";
  const nlohmann::json line = nlohmann::json::parse(ToJson(step));
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_EQ(line["next"], 1.5);
  EXPECT_TRUE(line["mask"].is_null());
  EXPECT_EQ(line["skip_reason"], "say \"why\"");
}

TEST(JsonLinesSink, GoesOnAtTheEndOfAnExistingFile) {
  MemoryFileSystem files;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Open(files, "metrics.jsonl"));
    ASSERT_THAT(sink->Report(Example()), IsOk());
    ASSERT_THAT(sink->Report(Example()), IsOk());
  }
  const std::string line = ToJson(Example()) + "\n";
  EXPECT_THAT(files.Read("metrics.jsonl"), IsOkAndHolds(line + line + line + line));
}

TEST(JsonLinesSink, AFullDiskIsAnErrorThatNamesTheFile) {
  MemoryFileSystem disk;
  FaultPlan plan;
  plan.free_bytes = 10;
  FaultyFileSystem files(disk, plan);
  ASSERT_OK_AND_ASSIGN(const auto sink, JsonLinesSink::Open(files, "metrics.jsonl"));
  EXPECT_THAT(sink->Report(Example()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("metrics.jsonl")));
}

}  // namespace
}  // namespace armature
