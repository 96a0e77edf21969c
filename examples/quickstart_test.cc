// Compiles and runs the README's example, and holds the README to it.
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/data/batch.h"

absl::Status Train(const armature::Batch& batch);  // quickstart.cc

namespace armature {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Batch Sentence() {
  const std::string text = "In the beginning was the Word, and the Word was with us";
  const int64_t length = static_cast<int64_t>(text.size()) - 1;
  const std::vector<int32_t> tokens(text.begin(), text.end() - 1), targets(text.begin() + 1, text.end());
  Batch batch;
  batch.fields.push_back({"tokens", *Array::FromValues<int32_t>({1, length}, tokens)});
  batch.fields.push_back({"targets", *Array::FromValues<int32_t>({1, length}, targets)});
  return batch;
}

TEST(Quickstart, TrainsAndTheLossFalls) {
  testing::internal::CaptureStdout();
  EXPECT_THAT(Train(Sentence()), IsOk());
  std::istringstream lines(testing::internal::GetCapturedStdout());
  std::vector<double> losses;
  for (std::string line; std::getline(lines, line);)
    losses.push_back(std::stod(line.substr(line.find("loss ") + 5)));
  ASSERT_EQ(losses.size(), 30u);
  EXPECT_NEAR(losses.front(), 5.5, 0.3);  // ln 256
  EXPECT_LT(losses.back(), 2.0);
}

TEST(Quickstart, ABadBatchIsAStatusAndNotACrash) {
  EXPECT_THAT(Train(Batch()), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(Readme, ShowsTheExampleThatThisTestRuns) {
  const std::string source = ReadFile("examples/quickstart.cc");
  ASSERT_FALSE(source.empty());
  EXPECT_NE(ReadFile("README.md").find("```cpp\n" + source + "```\n"), std::string::npos)
      << "README.md's C++ example differs from examples/quickstart.cc";
}

}  // namespace
}  // namespace armature
