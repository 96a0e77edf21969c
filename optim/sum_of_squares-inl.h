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

// Squares and sums in f64, where the square of an f32 is exact. Walks four quarters side by side: four sums
// hide the latency of additions, and four streams keep more of the memory's bandwidth busy than one.
HWY_INLINE double SumOfSquaresOf(const float* x, int64_t count) {
  namespace hn = hwy::HWY_NAMESPACE;
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d64));
  auto sum0 = hn::Zero(d64), sum1 = sum0, sum2 = sum0, sum3 = sum0;
  const int64_t quarter = count / 4 / lanes * lanes;
  for (int64_t i = 0; i < quarter; i += lanes) {
    const auto x0 = hn::PromoteTo(d64, hn::LoadU(d32, x + i));
    const auto x1 = hn::PromoteTo(d64, hn::LoadU(d32, x + i + quarter));
    const auto x2 = hn::PromoteTo(d64, hn::LoadU(d32, x + i + 2 * quarter));
    const auto x3 = hn::PromoteTo(d64, hn::LoadU(d32, x + i + 3 * quarter));
    sum0 = hn::MulAdd(x0, x0, sum0);
    sum1 = hn::MulAdd(x1, x1, sum1);
    sum2 = hn::MulAdd(x2, x2, sum2);
    sum3 = hn::MulAdd(x3, x3, sum3);
  }
  const auto sums = hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3));
  double total = hn::GetLane(hn::SumOfLanes(d64, sums));
  for (int64_t i = 4 * quarter; i < count; ++i) total += static_cast<double>(x[i]) * x[i];
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_OPTIM_SUM_OF_SQUARES_INL_H_
