#include "armature/tensor/cpu/norm_kernels.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <new>

#include "absl/strings/str_cat.h"
#include "armature/tensor/cpu/cpu_stream.h"
#include "armature/tensor/cpu/grain.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/norm_kernels.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/tensor/cpu/lanes-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace cpu {
namespace HWY_NAMESPACE {

template <typename T>
HWY_INLINE void LayerNormRows(const NormArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t cols = args.cols;
  const T* weight = static_cast<const T*>(args.weight);
  const T* bias = static_cast<const T*>(args.bias);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * cols;
    T* y = static_cast<T*>(args.y) + r * cols;
    const float sum = SumLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR { return lanes.Load(d, x + i); });
    const float rough = sum / static_cast<float>(cols);
    const auto rough_mean = hn::Set(d, rough);
    // Lanes beyond the row hold 0 - mean, which must not count.
    const SumPair sums =
        SumLanePairs(d, cols, [&](int64_t i, auto lanes, auto& first, auto& second) HWY_ATTR {
          const auto rest = lanes.Keep(d, hn::Sub(lanes.Load(d, x + i), rough_mean));
          first = hn::Add(first, rest);
          second = hn::MulAdd(rest, rest, second);
        });
    const double correction = static_cast<double>(sums.first) / cols;
    const double variance = std::max(0.0, static_cast<double>(sums.second) / cols - correction * correction);
    const double reciprocal = 1 / std::sqrt(variance + args.eps);
    const auto rstd = hn::Set(d, static_cast<float>(reciprocal));
    const auto shift = hn::Set(d, static_cast<float>(correction));
    ForLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto centred = hn::Sub(hn::Sub(lanes.Load(d, x + i), rough_mean), shift);
      const auto scaled = hn::Mul(hn::Mul(centred, rstd), lanes.Load(d, weight + i));
      lanes.Store(bias != nullptr ? hn::Add(scaled, lanes.Load(d, bias + i)) : scaled, d, y + i);
    });
    static_cast<float*>(args.mean)[r] = static_cast<float>(rough + correction);
    static_cast<float*>(args.rstd)[r] = static_cast<float>(reciprocal);
  }
}

template <typename T>
HWY_INLINE void RmsNormRows(const NormArgs& args, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  const int64_t cols = args.cols;
  const T* weight = static_cast<const T*>(args.weight);
  for (int64_t r = begin; r < end; ++r) {
    const T* x = static_cast<const T*>(args.x) + r * cols;
    T* y = static_cast<T*>(args.y) + r * cols;
    const double squares = SumLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
      const auto value = lanes.Load(d, x + i);
      return hn::Mul(value, value);
    });
    const float reciprocal = static_cast<float>(1 / std::sqrt(squares / cols + args.eps));
    const auto rstd = hn::Set(d, reciprocal);
    ForLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
      lanes.Store(hn::Mul(hn::Mul(lanes.Load(d, x + i), rstd), lanes.Load(d, weight + i)), d, y + i);
    });
    static_cast<float*>(args.rstd)[r] = reciprocal;
  }
}

// One row: writes dx, and adds to the sums over rows, each [cols] or null if not wanted. With h = (x - mean)
// rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)); RMSNorm has no mean, nor mean(g).
template <typename T>
HWY_INLINE void NormBackwardRow(const NormBackwardArgs& args, int64_t r, float* dweight, float* dbias) {
  const hn::ScalableTag<float> d;
  const int64_t cols = args.cols;
  const T* x = static_cast<const T*>(args.x) + r * cols;
  const T* dy = static_cast<const T*>(args.dy) + r * cols;
  const T* weight = static_cast<const T*>(args.weight);
  T* dx = args.dx == nullptr ? nullptr : static_cast<T*>(args.dx) + r * cols;
  const bool centred = args.mean != nullptr;
  const auto mean = hn::Set(d, centred ? static_cast<const float*>(args.mean)[r] : 0.0f);
  const auto rstd = hn::Set(d, static_cast<const float*>(args.rstd)[r]);
  // The saved mean is rounded: where it is large against the deviation, what it is off by shows. The row
  // tells it.
  const double off = centred ? SumLanes(d, cols,
                                        [&](int64_t i, auto lanes) HWY_ATTR {
                                          return lanes.Keep(d, hn::Sub(lanes.Load(d, x + i), mean));
                                        }) /
                                   static_cast<double>(cols)
                             : 0.0;
  const auto mean_off = hn::Set(d, static_cast<float>(off));
  const auto normalized = [&](int64_t i, auto lanes) HWY_ATTR {
    return hn::Mul(hn::Sub(hn::Sub(lanes.Load(d, x + i), mean), mean_off), rstd);
  };

  const SumPair row =
      dx == nullptr ? SumPair{0, 0}
                    : SumLanePairs(d, cols, [&](int64_t i, auto lanes, auto& first, auto& second) HWY_ATTR {
                        const auto h = normalized(i, lanes);
                        const auto g = hn::Mul(lanes.Load(d, dy + i), lanes.Load(d, weight + i));
                        first = hn::Add(first, g);
                        second = hn::MulAdd(g, h, second);
                      });
  const auto mean_g = hn::Set(d, centred ? row.first / static_cast<float>(cols) : 0.0f);
  const auto mean_gh = hn::Set(d, row.second / static_cast<float>(cols));
  ForLanes(d, cols, [&](int64_t i, auto lanes) HWY_ATTR {
    const auto h = normalized(i, lanes);
    const auto gradient = lanes.Load(d, dy + i);
    if (dweight != nullptr) {
      lanes.Store(hn::MulAdd(gradient, h, lanes.Load(d, dweight + i)), d, dweight + i);
    }
    if (dbias != nullptr) {
      lanes.Store(hn::Add(gradient, lanes.Load(d, dbias + i)), d, dbias + i);
    }
    if (dx != nullptr) {
      const auto g = hn::Mul(gradient, lanes.Load(d, weight + i));
      auto value = hn::Mul(rstd, hn::NegMulAdd(h, mean_gh, hn::Sub(g, mean_g)));
      if (args.accumulate_dx) value = hn::Add(lanes.Load(d, dx + i), value);
      lanes.Store(value, d, dx + i);
    }
  });
}

void LayerNormF32(const NormArgs& args, int64_t begin, int64_t end) {
  LayerNormRows<float>(args, begin, end);
}
void RmsNormF32(const NormArgs& args, int64_t begin, int64_t end) { RmsNormRows<float>(args, begin, end); }
void NormBackwardF32(const NormBackwardArgs& args, int64_t begin, int64_t end, float* dweight, float* dbias) {
  for (int64_t r = begin; r < end; ++r) NormBackwardRow<float>(args, r, dweight, dbias);
}

// out[c] (+)= sum of parts[p * stride + c] over p, for columns [begin, end).
void AddPartsF32(const float* parts, int64_t count, int64_t stride, float* out, bool accumulate,
                 int64_t begin, int64_t end) {
  const hn::ScalableTag<float> d;
  ForLanes(d, end - begin, [&](int64_t i, auto lanes) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (int64_t p = 0; p < count; ++p) sum = hn::Add(sum, lanes.Load(d, parts + p * stride + begin + i));
    if (accumulate) sum = hn::Add(lanes.Load(d, out + begin + i), sum);
    lanes.Store(sum, d, out + begin + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace cpu
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace cpu {
namespace {

HWY_EXPORT(LayerNormF32);
HWY_EXPORT(RmsNormF32);
HWY_EXPORT(NormBackwardF32);
HWY_EXPORT(AddPartsF32);

// Fixed by the shape alone, so that the sums' order is the same for every number of threads.
constexpr int64_t kMaxChunks = 64;
constexpr int64_t kMinChunkRows = 8;

}  // namespace

absl::Status LayerNorm(Stream& stream, const NormArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(LayerNormF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status RmsNorm(Stream& stream, const NormArgs& args) {
  CpuStream::Team(stream).ParallelFor(args.rows, GrainOf(args.cols), [&](int64_t begin, int64_t end) {
    HWY_DYNAMIC_DISPATCH(RmsNormF32)(args, begin, end);
  });
  return absl::OkStatus();
}

absl::Status NormBackward(Stream& stream, const NormBackwardArgs& args) {
  ThreadTeam& team = CpuStream::Team(stream);
  const int64_t rows = args.rows, cols = args.cols;
  const int64_t chunk_rows = std::max(kMinChunkRows, (rows + kMaxChunks - 1) / kMaxChunks);
  const int64_t chunks = (rows + chunk_rows - 1) / chunk_rows;
  const bool wants_weight = args.dweight != nullptr, wants_bias = args.dbias != nullptr;
  const int64_t size = chunks * cols * ((wants_weight ? 1 : 0) + (wants_bias ? 1 : 0));
  const std::unique_ptr<float[]> workspace(new (std::nothrow) float[size]);
  if (workspace == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("norm: no memory for a workspace of ", size * 4, " bytes"));
  }
  float* const weight_parts = workspace.get();
  float* const bias_parts = workspace.get() + (wants_weight ? chunks * cols : 0);

  team.ParallelFor(chunks, GrainOf(chunk_rows * cols), [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      float* const dweight = wants_weight ? weight_parts + chunk * cols : nullptr;
      float* const dbias = wants_bias ? bias_parts + chunk * cols : nullptr;
      if (wants_weight) std::fill_n(dweight, cols, 0.0f);
      if (wants_bias) std::fill_n(dbias, cols, 0.0f);
      const int64_t first = chunk * chunk_rows;
      HWY_DYNAMIC_DISPATCH(NormBackwardF32)(args, first, std::min(rows, first + chunk_rows), dweight, dbias);
    }
  });
  const auto add_parts = [&](const float* parts, void* out, bool accumulate) {
    float* const sums = static_cast<float*>(out);
    team.ParallelFor(cols, GrainOf(chunks), [&](int64_t begin, int64_t end) {
      HWY_DYNAMIC_DISPATCH(AddPartsF32)(parts, chunks, cols, sums, accumulate, begin, end);
    });
  };
  if (wants_weight) add_parts(weight_parts, args.dweight, args.accumulate_dweight);
  if (wants_bias) add_parts(bias_parts, args.dbias, args.accumulate_dbias);
  return absl::OkStatus();
}

}  // namespace cpu
}  // namespace armature
#endif  // HWY_ONCE
