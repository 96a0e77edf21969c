// Each rule against twelve updates that PyTorch computed.
#include "armature/optim/testing/goldens.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "armature/base/status_matchers.h"
#include "armature/base/thread_team.h"
#include "armature/optim/adagrad.h"
#include "armature/optim/adam.h"
#include "armature/optim/lamb.h"
#include "armature/optim/rmsprop.h"
#include "armature/optim/sgd.h"
#include "armature/optim/testing/highway_targets.h"
#include "armature/optim/testing/trained_parameter.h"

namespace armature {
namespace {

constexpr int kSteps = 12;
constexpr double kTolerance = 1e-6;

double RelativeDistance(const std::vector<float>& a, const float* expected) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += std::pow(static_cast<double>(a[i]) - expected[i], 2);
    size += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(difference / size);
}

void ExpectGoldens(const std::string& name, double learning_rate,
                   const absl::StatusOr<std::unique_ptr<UpdateRule>>& rule) {
  ASSERT_THAT(rule, IsOk());
  const std::map<std::string, std::vector<float>> goldens =
      ReadGoldens("tests/testdata/goldens/optim/" + name + ".safetensors");
  ThreadTeam team(2);
  double worst = 0;
  ForEachHighwayTarget([&] {
    for (const std::string parameter : {"a", "b"}) {
      ASSERT_EQ(goldens.count("init." + parameter), 1u) << "no reference values for " << name;
      const std::vector<float>& gradients = goldens.at("grads." + parameter);
      const std::vector<float>& after = goldens.at("after." + parameter);
      TrainedParameter trained(goldens.at("init." + parameter), **rule);
      const size_t size = trained.weight.size();
      for (int t = 0; t < kSteps; ++t) {
        StepFacts step;
        step.count = t + 1;
        step.learning_rate = learning_rate;
        step.threads = &team;
        const std::vector<float> gradient(&gradients[t * size], &gradients[t * size] + size);
        ASSERT_THAT(trained.Update(**rule, gradient, step, {3}), IsOk());
        const double distance = RelativeDistance(trained.weight, &after[t * size]);
        EXPECT_LE(distance, kTolerance) << name << ", parameter " << parameter << ", update " << t + 1;
        worst = std::max(worst, distance);
      }
    }
  });
  ::testing::Test::RecordProperty("worst_relative_distance", absl::StrCat(worst));
}

TEST(Goldens, Sgd) { ExpectGoldens("sgd", 0.1, MakeSgd(SgdOptions())); }

TEST(Goldens, SgdWithMomentumDampeningAndDecay) {
  SgdOptions options;
  options.momentum = 0.9;
  options.dampening = 0.1;
  options.weight_decay = 0.01;
  ExpectGoldens("sgd_momentum_wd", 0.1, MakeSgd(options));
}

TEST(Goldens, SgdWithNesterovMomentum) {
  SgdOptions options;
  options.momentum = 0.9;
  options.nesterov = true;
  ExpectGoldens("sgd_nesterov", 0.1, MakeSgd(options));
}

TEST(Goldens, AdamWithL2) {
  AdamOptions options;
  options.weight_decay = 0.1;
  ExpectGoldens("adam_l2", 0.01, MakeAdam(options));
}

TEST(Goldens, AdamW) {
  AdamWOptions options;
  options.beta2 = 0.95;
  options.eps = 1e-6;
  options.weight_decay = 0.1;
  ExpectGoldens("adamw", 0.01, MakeAdamW(options));
}

TEST(Goldens, AdamWWithAmsgrad) {
  AdamWOptions options;
  options.weight_decay = 0.1;
  options.amsgrad = true;
  ExpectGoldens("adamw_amsgrad", 0.01, MakeAdamW(options));
}

TEST(Goldens, Adagrad) { ExpectGoldens("adagrad", 0.01, MakeAdagrad(AdagradOptions())); }

TEST(Goldens, CentredRmsPropWithMomentum) {
  RmsPropOptions options;
  options.momentum = 0.9;
  options.centred = true;
  ExpectGoldens("rmsprop", 0.01, MakeRmsProp(options));
}

TEST(Goldens, Lamb) { ExpectGoldens("lamb", 0.01, MakeLamb(LambOptions())); }

}  // namespace
}  // namespace armature
