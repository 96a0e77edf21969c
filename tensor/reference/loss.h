// Softmax cross-entropy with label smoothing e over C real classes. With t the target and lse =
// log(sum(exp(x))):
//
//   loss = (1-e) (lse - x_t) + e/C sum over c of (lse - x_c)
//   dx_c = dloss (exp(x_c - lse) - (1-e) [c = t] - e/C)
//
// Columns at and after `classes` take no part; their gradient is 0. An ignored target has loss and gradient
// 0; one that is no class has NaN, so that it can't pass unseen.
#ifndef ARMATURE_TENSOR_REFERENCE_LOSS_H_
#define ARMATURE_TENSOR_REFERENCE_LOSS_H_

#include <cmath>
#include <limits>

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

template <typename T>
void CrossEntropy(const CrossEntropyArgs& args) {
  using std::exp, std::log;
  using N = Number<T>;
  const Input<T> x(args.logits);
  const Output<Statistic<T>> losses(args.losses), lse_out(args.lse);
  const double smoothing = args.smoothing, classes = static_cast<double>(args.classes);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t begin = r * args.stride, end = begin + args.classes;
    N max = begin < end ? x[begin] : N(0);
    for (int64_t i = begin; i < end; ++i) max = x[i] > max ? x[i] : max;
    N exponentials = 0, differences = 0;
    for (int64_t i = begin; i < end; ++i) {
      exponentials += exp(x[i] - max);
      differences += x[i] - max;
    }
    const N log_sum = log(exponentials);
    lse_out.Write(r, max + log_sum);

    const int32_t target = args.targets[r];
    if (target == kIgnoredTarget) {
      losses.Write(r, 0);
    } else if (target < 0 || target >= args.classes) {
      losses.Write(r, std::numeric_limits<double>::quiet_NaN());
    } else {
      N loss = (1 - smoothing) * (log_sum - (x[begin + target] - max));
      if (smoothing > 0) loss += smoothing * (log_sum - differences / classes);
      losses.Write(r, loss);
    }
  }
}

template <typename T>
void CrossEntropyPart(const CrossEntropyPartArgs& args) {
  const Input<T> x(args.logits);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t begin = r * args.stride, end = begin + args.classes;
    const int64_t target = args.targets[r] - args.first_class;
    double max = -std::numeric_limits<double>::infinity(), exponentials = 0, sum = 0;
    for (int64_t i = begin; i < end; ++i) max = x[i] > max ? x[i] : max;
    for (int64_t i = begin; i < end; ++i) {
      exponentials += std::exp(x[i] - max);
      sum += x[i];
    }
    double* statistics = args.statistics + r * kCrossEntropyStatistics;
    statistics[0] = max;
    statistics[1] = exponentials;
    statistics[2] = target >= 0 && target < args.classes ? x[begin + target] : 0;
    statistics[3] = args.with_sum ? sum : 0;
  }
}

// T: of the logits.
template <typename T>
void CrossEntropyJoin(const CrossEntropyJoinArgs& args) {
  const Output<Statistic<T>> losses(args.losses), lse(args.lse);
  const double smoothing = args.smoothing;
  for (int64_t r = 0; r < args.rows; ++r) {
    const auto part = [&](int64_t p) {
      return args.statistics + (p * args.rows + r) * kCrossEntropyStatistics;
    };
    double max = part(0)[0];
    for (int64_t p = 1; p < args.parts; ++p) max = part(p)[0] > max ? part(p)[0] : max;
    double exponentials = 0, at_target = 0, sum = 0;
    for (int64_t p = 0; p < args.parts; ++p) {
      // A part of padding alone has the maximum -infinity.
      if (part(p)[1] != 0) exponentials += part(p)[1] * std::exp(part(p)[0] - max);
      at_target += part(p)[2];
      sum += part(p)[3];
    }
    const double log_sum = std::log(exponentials);
    lse.Write(r, max + log_sum);
    const int32_t target = args.targets[r];
    if (target == kIgnoredTarget) {
      losses.Write(r, 0);
    } else if (target < 0 || target >= args.classes) {
      losses.Write(r, std::numeric_limits<double>::quiet_NaN());
    } else {
      double loss = (1 - smoothing) * (log_sum - (at_target - max));
      if (smoothing > 0) loss += smoothing * (log_sum - (sum / static_cast<double>(args.classes) - max));
      losses.Write(r, loss);
    }
  }
}

template <typename T>
void CrossEntropyBackward(const CrossEntropyBackwardArgs& args) {
  const Input<T> x(args.logits);
  const Input<Statistic<T>> lse(args.lse), dloss(args.dloss);
  const Output<T> dx(args.dlogits);
  const int64_t all_classes = args.all_classes > 0 ? args.all_classes : args.classes;
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t row = r * args.stride;
    const int32_t target = args.targets[r];
    const bool ignored = target == kIgnoredTarget;
    const bool is_class = target >= 0 && target < all_classes;
    const double factor = is_class ? dloss[0] : std::numeric_limits<double>::quiet_NaN();
    for (int64_t c = 0; c < args.stride; ++c) {
      if (ignored || c >= args.classes) {
        dx.Write(row + c, 0);
        continue;
      }
      const double wanted = args.smoothing / static_cast<double>(all_classes) +
                            (args.first_class + c == target ? 1 - args.smoothing : 0);
      dx.Write(row + c, factor * (std::exp(x[row + c] - lse[r]) - wanted));
    }
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_LOSS_H_
