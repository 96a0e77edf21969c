#include "armature/tensor/cpu/activation_kernels.h"

#include <algorithm>

#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/activation_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
#include "armature/tensor/cpu/transcendental-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

struct Identity {
  template <class D, class V>
  static HWY_INLINE V Value(D, V x) {
    return x;
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V) {
    return hn::Set(d, 1.0f);
  }
};

struct GeluErf {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, Normal(d, x).probability);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const NormalPoint<V> normal = Normal(d, x);
    const V x_over_root = hn::Mul(x, hn::Set(d, 0.398942280f));  // 1 / sqrt(2 pi)
    return hn::MulAdd(x_over_root, normal.exponential, normal.probability);
  }
};

// (1 + tanh u) / 2 is the logistic function of 2u = x (a + b x^2).
struct GeluTanh {
  static constexpr float kA = 1.59576912f, kB = 0.0713548163f;  // 2 sqrt(2 / pi), and 0.044715 of it

  template <class D, class V>
  static HWY_INLINE V Half(D d, V x, V squared) {
    return Logistic(d, hn::Mul(x, hn::MulAdd(squared, hn::Set(d, kB), hn::Set(d, kA))));
  }
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, Half(d, x, hn::Mul(x, x)));
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V squared = hn::Mul(x, x), s = Half(d, x, squared);
    const V inner = hn::MulAdd(squared, hn::Set(d, 3 * kB), hn::Set(d, kA));
    return hn::MulAdd(hn::Mul(x, inner), hn::NegMulAdd(s, s, s), s);
  }
};

struct Silu {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::Mul(x, Logistic(d, x));
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    const V s = Logistic(d, x);
    return hn::MulAdd(x, hn::NegMulAdd(s, s, s), s);
  }
};

struct Relu {
  template <class D, class V>
  static HWY_INLINE V Value(D d, V x) {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
  template <class D, class V>
  static HWY_INLINE V Derivative(D d, V x) {
    return hn::IfThenElseZero(hn::Gt(x, hn::Zero(d)), hn::Set(d, 1.0f));
  }
};

template <class Body>
HWY_INLINE void WithActivation(Activation activation, const Body& body) {
  switch (activation) {
    case Activation::kNone:
      return body(Identity());
    case Activation::kGeluErf:
      return body(GeluErf());
    case Activation::kGeluTanh:
      return body(GeluTanh());
    case Activation::kSilu:
      return body(Silu());
    case Activation::kRelu:
      return body(Relu());
  }
}

// Elements [begin, end) of the flattened x. T: the stored type.
template <typename T>
HWY_INLINE void BiasActivationRange(const BiasActivationArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const T* x = static_cast<const T*>(args.x);
  const T* bias = static_cast<const T*>(args.bias);
  T* y = static_cast<T*>(args.y);
  T* pre = static_cast<T*>(args.pre);
  // Without a bias there is nothing that rows would cut.
  const int64_t cols = bias != nullptr ? args.cols : end;
  WithActivation(args.activation, [&](auto f) HWY_ATTR {
    for (int64_t row = begin, count; row < end; row += count) {
      const int64_t col = row % cols;
      count = std::min(cols - col, end - row);
      ForLanes(d, count, [&](int64_t i, auto lanes) HWY_ATTR {
        auto z = lanes.Load(d, x + row + i);
        if (bias != nullptr) z = hn::Add(z, lanes.Load(d, bias + col + i));
        if (pre != nullptr) lanes.Store(z, d, pre + row + i);
        lanes.Store(f.Value(d, z), d, y + row + i);
      });
    }
  });
}

template <typename T>
HWY_INLINE void ActivationBackwardRange(const ActivationBackwardArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const T* pre = static_cast<const T*>(args.pre) + begin;
  const T* dy = static_cast<const T*>(args.dy) + begin;
  T* dx = static_cast<T*>(args.dx) + begin;
  WithActivation(args.activation, [&](auto f) HWY_ATTR {
    ForLanes(d, end - begin, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto slope = f.Derivative(d, lanes.Load(d, pre + i));
      auto gradient = hn::Mul(lanes.Load(d, dy + i), slope);
      if (args.accumulate) gradient = hn::Add(lanes.Load(d, dx + i), gradient);
      lanes.Store(gradient, d, dx + i);
    });
  });
}

void BiasActivationF32(const BiasActivationArgs& args, int64_t begin, int64_t end) {
  BiasActivationRange<float>(args, begin, end);
}
void ActivationBackwardF32(const ActivationBackwardArgs& args, int64_t begin, int64_t end) {
  ActivationBackwardRange<float>(args, begin, end);
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {

HWY_EXPORT(BiasActivationF32);
HWY_EXPORT(ActivationBackwardF32);

absl::Status BiasActivation(Stream& stream, const BiasActivationArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows * args.cols, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(BiasActivationF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status ActivationBackward(Stream& stream, const ActivationBackwardArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.count, kElementGrain, [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(ActivationBackwardF32)(args, begin, end);
  });
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
