#include "armature/tensor/cpu/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>
#include <random>

#include "armature/base/thread_team.h"
#include "armature/tensor/cpu/cpu_kernels.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/reference/reference_kernels.h"
#include "gtest/gtest.h"
#include "hwy/highway.h"

namespace armature {
namespace {

// Makes Highway choose among `targets` only; 0: among all.
void ChooseTargets(int64_t targets) {
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

std::vector<float> RunWith(const KernelTable& kernels, KernelRun run, int threads) {
  ThreadTeam team(threads);
  CpuStream stream(team, /*matmul_parts=*/4);
  return run(kernels, stream);
}

void ExpectNear(const std::vector<float>& values, const std::vector<float>& reference, double tolerance,
                double scale) {
  ASSERT_EQ(values.size(), reference.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const double expected = reference[i];
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(values[i])) << "value " << i << " is " << values[i] << ", not NaN";
    } else if (values[i] != reference[i]) {
      const double bound = tolerance * std::max(std::abs(expected), scale);
      ASSERT_LE(std::abs(values[i] - expected), bound)
          << "value " << i << " is " << values[i] << ", not " << expected;
    }
  }
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  return a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace

void ExpectConforms(KernelRun run, double tolerance, double scale) {
  const std::vector<float> reference = RunWith(ReferenceKernels(), run, 1);
  const int64_t supported = hwy::SupportedTargets() | HWY_STATIC_TARGET;
  for (int64_t target : std::initializer_list<int64_t>{HWY_AVX3, HWY_AVX2, HWY_STATIC_TARGET}) {
    if ((supported & target) == 0) continue;
    SCOPED_TRACE(hwy::TargetName(target));
    ChooseTargets(target);
    const std::vector<float> alone = RunWith(CpuKernels(), run, 1);
    ExpectNear(alone, reference, tolerance, scale);
    for (int threads : {2, 3}) {
      const std::vector<float> shared = RunWith(CpuKernels(), run, threads);
      EXPECT_TRUE(SameBits(shared, alone)) << threads << " threads give other bits than one";
    }
  }
  ChooseTargets(0);
}

std::vector<float> TestValues(int64_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(generator()) * 0x1p-30f - 2;
  return values;
}

}  // namespace armature
