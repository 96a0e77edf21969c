// LayerNorm and RMSNorm. With h = (x - mean) rstd (RMSNorm: mean = 0), g = dy weight and means over the row:
//
//   y       = h weight + bias
//   dx      = rstd (g - mean(g) - h mean(g h))      RMSNorm: without mean(g)
//   dweight = sum over rows of dy h
//   dbias   = sum over rows of dy
#ifndef ARMATURE_TENSOR_REFERENCE_NORM_H_
#define ARMATURE_TENSOR_REFERENCE_NORM_H_

#include <cmath>
#include <vector>

#include "armature/tensor/kernels.h"
#include "armature/tensor/reference/number.h"

namespace armature {
namespace reference {

template <typename T>
void LayerNorm(const NormArgs& args) {
  using std::sqrt;
  using N = Number<T>;
  const Input<T> x(args.x), weight(args.weight), bias(args.bias);
  const Output<T> y(args.y);
  const Output<Statistic<T>> mean_out(args.mean), rstd_out(args.rstd);
  const double cols = static_cast<double>(args.cols);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t row = r * args.cols;
    N sum = 0, squares = 0;
    for (int64_t c = 0; c < args.cols; ++c) sum += x[row + c];
    const N mean = sum / cols;
    for (int64_t c = 0; c < args.cols; ++c) squares += (x[row + c] - mean) * (x[row + c] - mean);
    const N rstd = 1 / sqrt(squares / cols + args.eps);
    for (int64_t c = 0; c < args.cols; ++c) {
      const N scaled = (x[row + c] - mean) * rstd * weight[c];
      y.Write(row + c, bias ? scaled + bias[c] : scaled);
    }
    mean_out.Write(r, mean);
    rstd_out.Write(r, rstd);
  }
}

template <typename T>
void RmsNorm(const NormArgs& args) {
  using std::sqrt;
  using N = Number<T>;
  const Input<T> x(args.x), weight(args.weight);
  const Output<T> y(args.y);
  const Output<Statistic<T>> rstd_out(args.rstd);
  for (int64_t r = 0; r < args.rows; ++r) {
    const int64_t row = r * args.cols;
    N squares = 0;
    for (int64_t c = 0; c < args.cols; ++c) squares += x[row + c] * x[row + c];
    const N rstd = 1 / sqrt(squares / static_cast<double>(args.cols) + args.eps);
    for (int64_t c = 0; c < args.cols; ++c) y.Write(row + c, x[row + c] * rstd * weight[c]);
    rstd_out.Write(r, rstd);
  }
}

// Both norms: a null `mean` says RMSNorm. T: of the data. G: of the gradients of weight and bias.
template <typename T, typename G>
void NormBackward(const NormBackwardArgs& args) {
  using N = Number<T>;
  const Input<T> dy(args.dy), x(args.x), weight(args.weight);
  const Input<Statistic<T>> mean(args.mean), rstd(args.rstd);
  const Output<T> dx(args.dx);
  const Output<G> dweight(args.dweight), dbias(args.dbias);
  // The saved mean is rounded to the statistics' type: where it is large against the deviation, that would
  // show.
  std::vector<N> centre(args.rows, N(0));
  for (int64_t r = 0; mean && r < args.rows; ++r) {
    for (int64_t c = 0; c < args.cols; ++c)
      centre[r] += x[r * args.cols + c] / static_cast<double>(args.cols);
  }
  const auto normalized = [&](int64_t r, int64_t c) {
    const N value = x[r * args.cols + c];
    return (value - centre[r]) * rstd[r];
  };
  for (int64_t r = 0; dx && r < args.rows; ++r) {
    const int64_t row = r * args.cols;
    N mean_g = 0, mean_gh = 0;
    for (int64_t c = 0; c < args.cols; ++c) {
      const N g = dy[row + c] * weight[c];
      if (mean) mean_g += g / static_cast<double>(args.cols);
      mean_gh += g * normalized(r, c) / static_cast<double>(args.cols);
    }
    for (int64_t c = 0; c < args.cols; ++c) {
      const N g = dy[row + c] * weight[c];
      dx.Write(row + c, rstd[r] * (g - mean_g - normalized(r, c) * mean_gh), args.accumulate_dx);
    }
  }
  if (!dweight && !dbias) return;
  for (int64_t c = 0; c < args.cols; ++c) {
    N weight_sum = 0, bias_sum = 0;
    for (int64_t r = 0; r < args.rows; ++r) {
      weight_sum += dy[r * args.cols + c] * normalized(r, c);
      bias_sum += dy[r * args.cols + c];
    }
    if (dweight) dweight.Write(c, weight_sum, args.accumulate_dweight);
    if (dbias) dbias.Write(c, bias_sum, args.accumulate_dbias);
  }
}

}  // namespace reference
}  // namespace armature

#endif  // ARMATURE_TENSOR_REFERENCE_NORM_H_
