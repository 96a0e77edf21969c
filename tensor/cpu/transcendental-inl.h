// exp, the logistic function and the normal distribution's tail on f32 lanes, to about 1e-7 of their value.
// Shorter than Highway's own, which also care for subnormal results and for overflow.
//
// Included once for each Highway target; see hwy/foreach_target.h.
#if defined(ARMATURE_TENSOR_CPU_TRANSCENDENTAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ARMATURE_TENSOR_CPU_TRANSCENDENTAL_INL_H_
#undef ARMATURE_TENSOR_CPU_TRANSCENDENTAL_INL_H_
#else
#define ARMATURE_TENSOR_CPU_TRANSCENDENTAL_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// exp(x) for x <= 88: exactly 0 below -87 (where results would be subnormal) and at -infinity; NaN stays NaN.
//
// x = q ln 2 + r with |r| <= ln(2) / 2: exp(r) by its minimax polynomial of degree 6 (3e-9), then q is added
// to the exponent. Adding 1.5 * 2^23 rounds x / ln 2 to an integer and leaves it in the sum's low bits.
template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), magic);
  const V q = hn::Sub(shifted, magic);
  V r = hn::NegMulAdd(q, hn::Set(d, 0.693145752f), x);  // ln 2 in two parts: q times the first is exact
  r = hn::NegMulAdd(q, hn::Set(d, 1.42860677e-6f), r);
  V p = hn::MulAdd(r, hn::Set(d, 0.001381314492f), hn::Set(d, 0.008369418828f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.04166845678f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.1666651479f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.4999999305f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0f));
  const V scaled = hn::BitCast(d, hn::Add(hn::BitCast(di, p), hn::ShiftLeft<23>(hn::BitCast(di, shifted))));
  return hn::IfThenZeroElse(hn::Lt(x, hn::Set(d, -87.0f)), scaled);
}

// 1 / (1 + exp(-x)).
template <class D, class V>
HWY_INLINE V Logistic(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Min(hn::Set(d, 88.0f), hn::Neg(x)))));
}

// The normal distribution at x: P(x), the probability below x, and its density times sqrt(2 pi), exp(-x^2 /
// 2).
template <class V>
struct NormalPoint {
  V probability, exponential;
};

// The tail beyond a = |x| is exp(-a^2 / 2) R(a), and R is a polynomial of degree 8 in 1 / (1 + 0.3 a),
// minimax in relative error (6e-8) up to a = 14, beyond which the tail is 0.
template <class D, class V>
HWY_INLINE NormalPoint<V> Normal(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V a = hn::Min(hn::Set(d, 14.0f), hn::Abs(x));
  const V exponential = Exp(d, hn::Mul(hn::Mul(a, a), hn::Set(d, -0.5f)));
  const V t = hn::Div(one, hn::MulAdd(a, hn::Set(d, 0.3f), one));
  V p = hn::MulAdd(t, hn::Set(d, 0.03837827833f), hn::Set(d, -0.1691660598f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.2286599805f));
  p = hn::MulAdd(p, t, hn::Set(d, -0.0765063704f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1425354563f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.0946835493f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1219203362f));
  p = hn::MulAdd(p, t, hn::Set(d, 0.1194876897f));
  p = hn::MulAdd(p, t, hn::Set(d, 7.168838147e-6f));
  const V tail = hn::Mul(exponential, p);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)), exponential};
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#endif  // ARMATURE_TENSOR_CPU_TRANSCENDENTAL_INL_H_
