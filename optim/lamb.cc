#include "armature/optim/lamb.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/optim/option_checks.h"
#include "armature/optim/update_ranges.h"

// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optim/lamb.cc"
#include "hwy/foreach_target.h"   // before the others of this block
#include "hwy/highway.h"
#include "armature/optim/lanes-inl.h"
#include "armature/optim/sum_of_squares-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace armature {
namespace HWY_NAMESPACE {

// r of the header. scale is 1 / (1 - beta1^t), root_scale 1 / sqrt(1 - beta2^t).
template <typename V>
HWY_INLINE V Direction(V weight, V m, V v, V scale, V root_scale, V eps, V decay) {
  const V step = hn::Div(hn::Mul(m, scale), hn::MulAdd(hn::Sqrt(v), root_scale, eps));
  return hn::MulAdd(decay, weight, step);
}

// First pass: moves m and v, and writes the squares of w and of r, summed over the range, to squares[0] and
// [1].
void LambMoments(const UpdateRange& range, const LambOptions& options, float scale, float root_scale,
                 float decay, double* squares) {
  const hn::ScalableTag<float> d;
  const auto beta1 = hn::Set(d, static_cast<float>(options.beta1));
  const auto beta2 = hn::Set(d, static_cast<float>(options.beta2));
  const auto rest1 = hn::Set(d, static_cast<float>(1 - options.beta1));
  const auto rest2 = hn::Set(d, static_cast<float>(1 - options.beta2));
  const auto eps = hn::Set(d, static_cast<float>(options.eps));
  const auto corrected = hn::Set(d, scale), root = hn::Set(d, root_scale), l2 = hn::Set(d, decay);

  constexpr int64_t kBlock = 512;
  HWY_ALIGN float directions[kBlock];
  squares[0] = squares[1] = 0;
  for (int64_t at = 0; at < range.count; at += kBlock) {
    UpdateRange block = range;
    block.weight += at;
    block.gradient += at;
    block.state[0] += at;
    block.state[1] += at;
    block.state[2] = directions;
    block.count = std::min(kBlock, range.count - at);
    UpdateLanes<3, kAllButWeight>(
        block, [&](auto gradient, auto& weight, auto& m, auto& v, auto& direction) HWY_ATTR {
          m = hn::MulAdd(beta1, m, hn::Mul(rest1, gradient));
          v = hn::MulAdd(beta2, v, hn::Mul(rest2, hn::Mul(gradient, gradient)));
          direction = Direction(weight, m, v, corrected, root, eps, l2);
        });
    squares[0] += SumOfSquaresOf(block.weight, block.count);
    squares[1] += SumOfSquaresOf(directions, block.count);
  }
}

// Second pass: rate is lr times the ratio.
void LambMove(const UpdateRange& range, const LambOptions& options, float scale, float root_scale,
              float decay, float rate) {
  const hn::ScalableTag<float> d;
  const auto eps = hn::Set(d, static_cast<float>(options.eps));
  const auto corrected = hn::Set(d, scale), root = hn::Set(d, root_scale), l2 = hn::Set(d, decay);
  const auto step = hn::Set(d, rate);
  UpdateLanes<2, kWeight>(range, [&](auto /*gradient*/, auto& weight, auto& m, auto& v) HWY_ATTR {
    weight = hn::NegMulAdd(step, Direction(weight, m, v, corrected, root, eps, l2), weight);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace armature
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace armature {
namespace {

HWY_EXPORT(LambMoments);
HWY_EXPORT(LambMove);

// The squares of w and of r summed over each parameter: entries 2p and 2p + 1 for parameter p.
using Squares = std::vector<double>;

absl::StatusOr<Squares> MakeSquares(absl::Span<const UpdateView> views, const StepFacts& step) {
  int64_t num_parameters = step.sum_over_shards ? step.num_parameters : 0;
  for (const UpdateView& view : views) {
    const int64_t parameter = view.facts.parameter;
    if (parameter < 0 || (step.sum_over_shards && parameter >= num_parameters)) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", parameter, " is not one of ", num_parameters, " parameters"));
    }
    num_parameters = std::max(num_parameters, parameter + 1);
  }
  return Squares(2 * num_parameters, 0.0);
}

// |w| / |r|, or 1 where either is 0.
double TrustRatio(const Squares& squares, int64_t parameter) {
  const double weight = std::sqrt(squares[2 * parameter]), direction = std::sqrt(squares[2 * parameter + 1]);
  return weight > 0 && direction > 0 ? weight / direction : 1;
}

class Lamb : public UpdateRule {
 public:
  explicit Lamb(const LambOptions& options) : options_(options) {}

  std::vector<StateSpec> States() const override { return {{"m"}, {"v"}}; }

  absl::Status Update(absl::Span<const UpdateView> views, const StepFacts& step) const override {
    ARMATURE_RETURN_IF_ERROR(CheckUpdate(views, 2, step), "LAMB");
    ARMATURE_ASSIGN_OR_RETURN(Squares squares, MakeSquares(views, step), "LAMB");
    const double count = static_cast<double>(step.count);
    const float scale = static_cast<float>(1 / (1 - std::pow(options_.beta1, count)));
    const float root_scale = static_cast<float>(1 / std::sqrt(1 - std::pow(options_.beta2, count)));

    const Chunks chunks = ChunksOf(views);
    std::vector<double> squares_of_chunks(2 * chunks.size());
    chunks.ForEach(step.threads, [&](const Chunk& chunk) {
      const UpdateView& view = views[chunk.array];
      HWY_DYNAMIC_DISPATCH(LambMoments)
      (RangeOf(view, chunk, step), options_, scale, root_scale, Decay(view.facts),
       &squares_of_chunks[2 * chunk.index]);
    });
    for (size_t i = 0; i < views.size(); ++i) {
      const int64_t parameter = views[i].facts.parameter;
      for (int64_t chunk = chunks.first_chunk(i); chunk < chunks.first_chunk(i + 1); ++chunk) {
        squares[2 * parameter] += squares_of_chunks[2 * chunk];
        squares[2 * parameter + 1] += squares_of_chunks[2 * chunk + 1];
      }
    }
    if (step.sum_over_shards) {
      ARMATURE_RETURN_IF_ERROR(step.sum_over_shards(absl::MakeSpan(squares)), "LAMB's norms");
    }

    chunks.ForEach(step.threads, [&](const Chunk& chunk) {
      const UpdateView& view = views[chunk.array];
      const double rate = step.learning_rate * TrustRatio(squares, view.facts.parameter);
      HWY_DYNAMIC_DISPATCH(LambMove)
      (RangeOf(view, chunk, step), options_, scale, root_scale, Decay(view.facts), static_cast<float>(rate));
    });
    return absl::OkStatus();
  }

 private:
  float Decay(const ParameterFacts& facts) const {
    return facts.decay ? static_cast<float>(options_.weight_decay) : 0;
  }

  const LambOptions options_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> MakeLamb(const LambOptions& options) {
  ARMATURE_RETURN_IF_ERROR(CheckFraction("beta1", options.beta1), "LAMB");
  ARMATURE_RETURN_IF_ERROR(CheckFraction("beta2", options.beta2), "LAMB");
  ARMATURE_RETURN_IF_ERROR(CheckPositive("eps", options.eps), "LAMB");
  ARMATURE_RETURN_IF_ERROR(CheckNotNegative("weight_decay", options.weight_decay), "LAMB");
  return std::make_unique<Lamb>(options);
}

}  // namespace armature
#endif  // HWY_ONCE
