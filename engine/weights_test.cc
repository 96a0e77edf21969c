// ExportWeights and ImportWeights.
#include <string>
#include <vector>

#include "armature/base/status_matchers.h"
#include "armature/engine/engine.h"
#include "armature/engine/engine_test_engines.h"
#include "armature/engine/engine_test_models.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ImportWeights, NamesWhatDoesNotFit) {
  const auto engine = Make(SgdConfig(), ScaleModel(false));
  float value = 3;
  NamedBuffer w{"w", Shape{1, 1}, BufferView{&value, 1, DType::kF32, Device{}}};
  EXPECT_THAT(engine->ImportWeights({w}), IsOk());
  EXPECT_EQ(Weights(*engine), std::vector<float>{3});
  EXPECT_THAT(engine->ImportWeights({}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("w is missing")));
  NamedBuffer other = w;
  other.name = "v";
  EXPECT_THAT(engine->ImportWeights({w, other}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no weight v")));
  w.shape = Shape{1};
  EXPECT_THAT(engine->ImportWeights({w}),
              StatusIs(absl::StatusCode::kInvalidArgument, AllOf(HasSubstr("[1]"), HasSubstr("[1, 1]"))));
}

TEST(ImportWeights, OfAnExportGivesTheSameModel) {
  EngineConfig config = SgdConfig();
  const auto from = Make(config, MakeGpt2(TinyGpt2()));
  config.set_seed(2);
  const auto to = Make(config, MakeGpt2(TinyGpt2()));
  ASSERT_NE(Weights(*to), Weights(*from));
  std::vector<NamedBuffer> weights;
  std::vector<std::vector<float>> values;
  ASSERT_THAT(from->ExportWeights([&](const NamedBuffer& weight) {
    const float* data = static_cast<const float*>(weight.view.data);
    values.emplace_back(data, data + weight.view.count);
    weights.insert(weights.begin(), weight);  // in another order
    weights.front().view.data = values.back().data();
    return absl::OkStatus();
  }),
              IsOk());
  ASSERT_THAT(to->ImportWeights(weights), IsOk());
  EXPECT_EQ(Weights(*to), Weights(*from));
}

TEST(ImportWeights, AfterAnErrorNothingHasChanged) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  const std::vector<float> before = Weights(*engine);
  std::vector<NamedBuffer> weights;
  std::vector<std::vector<float>> zeros;
  ASSERT_THAT(engine->ExportWeights([&](const NamedBuffer& weight) {
    zeros.emplace_back(weight.view.count);
    weights.push_back(weight);
    weights.back().view.data = zeros.back().data();
    return absl::OkStatus();
  }),
              IsOk());
  const auto expect_refused = [&](const std::vector<NamedBuffer>& bad, const std::string& why) {
    EXPECT_THAT(engine->ImportWeights(bad), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(why)));
    EXPECT_EQ(Weights(*engine), before);
  };
  std::vector<NamedBuffer> bad = weights;
  bad.push_back(weights[3]);
  expect_refused(bad, weights[3].name + " is given twice");
  bad = weights;
  bad.back().view.dtype = DType::kF16;
  expect_refused(bad, weights.back().name);
  bad = weights;
  bad.back().view.count -= 1;
  expect_refused(bad, weights.back().name);
  bad = weights;
  bad.back().view.data = nullptr;
  expect_refused(bad, weights.back().name);
  bad = weights;
  bad.pop_back();
  expect_refused(bad, weights.back().name + " is missing");
}

TEST(ExportWeights, AnErrorOfTheSinkEndsIt) {
  const auto engine = Make(SgdConfig(), MakeGpt2(TinyGpt2()));
  int calls = 0;
  EXPECT_THAT(engine->ExportWeights([&](const NamedBuffer&) {
    return ++calls < 2 ? absl::OkStatus() : absl::ResourceExhaustedError("full");
  }),
              StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_EQ(calls, 2);
}

}  // namespace
}  // namespace armature
