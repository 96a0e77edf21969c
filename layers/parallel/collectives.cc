#include "armature/layers/parallel/collectives.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "armature/layers/parallel/exchange.h"
#include "armature/tensor/tape.h"

namespace armature {
namespace {

constexpr int kSequence = 1;

// A move of a tensor that is on no tape.
using Move = std::function<Tensor(const Tensor& x)>;

Tensor Nothing(const Tensor& x) { return x; }

class CollectiveFunction : public Function {
 public:
  CollectiveFunction(absl::string_view name, Move backward) : name_(name), backward_(std::move(backward)) {}
  absl::string_view name() const override { return name_; }
  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    sink.Add(0, backward_(grads_out[0]));
  }

 private:
  const absl::string_view name_;
  const Move backward_;
};

// `name` must be a literal.
Tensor Collective(absl::string_view name, Tensor x, const Move& forward, const Move& backward) {
  Tensor y = forward(x);
  if (!y.ok()) return y;
  return RecordIfOnTape(y.Detach(), {x},
                        [&] { return std::make_unique<CollectiveFunction>(name, backward); });
}

// How `dim` of x is dealt out if it is whole.
absl::StatusOr<Deal> DealOfWhole(absl::string_view name, const TensorGroup& group, const Tensor& x, int dim) {
  if (!x.ok()) return x.status();
  const int rank = x.shape().rank(), at = dim < 0 ? dim + rank : dim;
  if (at < 0 || at >= rank || x.shape().dim(at) % group.size() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": x ", x.shape().ToString(), ": dimension ", dim,
                                                   " must be divisible by the tensor size ", group.size()));
  }
  return Deal{at, x.shape().dim(at), x.shape().dim(at) / group.size()};
}

// The same if x is a part.
absl::StatusOr<Deal> DealOfPart(absl::string_view name, const TensorGroup& group, const Tensor& x, int dim,
                                int64_t whole) {
  if (!x.ok()) return x.status();
  const int rank = x.shape().rank(), at = dim < 0 ? dim + rank : dim;
  const int64_t part = at < 0 || at >= rank ? 0 : x.shape().dim(at);
  if (at < 0 || at >= rank || whole < 0 || whole > part * group.size()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": x ", x.shape().ToString(), " has no dimension ",
                                                   dim, " that is a part of ", whole));
  }
  return Deal{at, whole > 0 ? whole : part * group.size(), part};
}

}  // namespace

Tensor CopyToTensorAxis(const TensorGroup& group, Tensor x) {
  if (group.size() == 1) return x;
  if (!x.ok()) return FailGroup(group, x.status());
  return Collective("CopyToTensorAxis", std::move(x), Nothing,
                    [group](const Tensor& dy) { return SumOverRanks(group, dy); });
}

Tensor ReduceFromTensorAxis(const TensorGroup& group, Tensor x) {
  if (group.size() == 1) return x;
  return Collective(
      "ReduceFromTensorAxis", std::move(x), [&](const Tensor& part) { return SumOverRanks(group, part); },
      Nothing);
}

Tensor GatherFromTensorAxis(const TensorGroup& group, Tensor x, int dim, int64_t whole) {
  constexpr absl::string_view kName = "GatherFromTensorAxis";
  if (group.size() == 1) return x;
  const absl::StatusOr<Deal> deal = DealOfPart(kName, group, x, dim, whole);
  if (!deal.ok()) return FailGroup(group, deal.status());
  return Collective(
      kName, std::move(x), [&](const Tensor& part) { return GatherParts(group, part, *deal); },
      [group, deal = *deal](const Tensor& dy) { return OwnPart(group, dy, deal); });
}

Tensor ScatterToTensorAxis(const TensorGroup& group, Tensor x, int dim) {
  constexpr absl::string_view kName = "ScatterToTensorAxis";
  if (group.size() == 1) return x;
  const absl::StatusOr<Deal> deal = DealOfWhole(kName, group, x, dim);
  if (!deal.ok()) return FailGroup(group, deal.status());
  return Collective(
      kName, std::move(x), [&](const Tensor& all) { return OwnPart(group, all, *deal); },
      [group, deal = *deal](const Tensor& dy) { return GatherParts(group, dy, deal); });
}

Tensor GatherSequence(const TensorGroup& group, Tensor x) {
  constexpr absl::string_view kName = "GatherSequence";
  if (group.size() == 1) return x;
  const absl::StatusOr<Deal> deal = DealOfPart(kName, group, x, kSequence, 0);
  if (!deal.ok()) return FailGroup(group, deal.status());
  return Collective(
      kName, std::move(x), [&](const Tensor& part) { return GatherParts(group, part, *deal); },
      [group, deal = *deal](const Tensor& dy) { return SumAndDeal(group, dy, deal); });
}

Tensor ScatterSequence(const TensorGroup& group, Tensor x) {
  constexpr absl::string_view kName = "ScatterSequence";
  if (group.size() == 1) return x;
  const absl::StatusOr<Deal> deal = DealOfWhole(kName, group, x, kSequence);
  if (!deal.ok()) return FailGroup(group, deal.status());
  return Collective(
      kName, std::move(x), [&](const Tensor& all) { return SumAndDeal(group, all, *deal); },
      [group, deal = *deal](const Tensor& dy) { return GatherParts(group, dy, deal); });
}

Tensor EnterRegion(const TensorGroup& group, Tensor x) {
  return group.sequence_parallel ? GatherSequence(group, std::move(x))
                                 : CopyToTensorAxis(group, std::move(x));
}

Tensor LeaveRegion(const TensorGroup& group, Tensor partial_sum) {
  return group.sequence_parallel ? ScatterSequence(group, std::move(partial_sum))
                                 : ReduceFromTensorAxis(group, std::move(partial_sum));
}

}  // namespace armature
