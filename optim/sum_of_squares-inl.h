// SumOfSquaresOf: the vector loop under global norms and LAMB's. Included once for each Highway target.
#if defined(ARMATURE_OPTIM_SUM_OF_SQUARES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_OPTIM_SUM_OF_SQUARES_INL_H_
#undef ARMATURE_OPTIM_SUM_OF_SQUARES_INL_H_
#else
#define ARMATURE_OPTIM_SUM_OF_SQUARES_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

// Squares and sums in f64, where the square of an f32 is exact. Four independent sums hide the latency of
// additions.
HWY_INLINE double SumOfSquaresOf(const float* x, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d64));
  auto sum0 = hn::Zero(d64), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto x0 = hn::PromoteTo(d64, hn::LoadU(d32, x + i));
    const auto x1 = hn::PromoteTo(d64, hn::LoadU(d32, x + i + lanes));
    const auto x2 = hn::PromoteTo(d64, hn::LoadU(d32, x + i + 2 * lanes));
    const auto x3 = hn::PromoteTo(d64, hn::LoadU(d32, x + i + 3 * lanes));
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  const auto sums = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  double total = hn::GetLane(hn::SumOfLanes(d64, sums));
  for (; i < count; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_OPTIM_SUM_OF_SQUARES_INL_H_
