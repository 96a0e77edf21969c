#include "armature/layers/parallel/cross_entropy.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/layers/parallel/exchange.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/tape.h"

namespace armature {
namespace {

constexpr absl::string_view kName = "ParallelCrossEntropy";

template <typename Args>
absl::Status Launch(Backend& backend, absl::Status (*kernel)(Stream&, const Args&), const Args& args) {
  if (kernel == nullptr)
    return absl::UnimplementedError(absl::StrCat(kName, ": this backend has no kernel for it"));
  return kernel(backend.compute_stream(), args);
}

// The columns of the logits that this rank has.
struct Columns {
  int64_t first = 0;
  int64_t classes = 0;  // without padding
  int64_t all_classes = 0;
};

class ParallelCrossEntropyFunction : public Function {
 public:
  ParallelCrossEntropyFunction(Tensor logits, Tensor targets, Tensor lse, const Columns& columns,
                               double smoothing)
      : logits_(std::move(logits)),
        targets_(std::move(targets)),
        lse_(std::move(lse)),
        columns_(columns),
        smoothing_(smoothing) {}

  absl::string_view name() const override { return kName; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {logits_, targets_, lse_}; }

  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    Backend& backend = logits_.backend();
    const Tensor dlogits = logits_.unique() ? logits_
                                            : Tensor::Empty(backend, logits_.shape(), logits_.dtype(),
                                                            MemoryCategory::kActivations);
    if (!dlogits.ok()) return sink.Fail(dlogits.status());
    CrossEntropyBackwardArgs args;
    args.logits = logits_.data();
    args.targets = static_cast<const int32_t*>(targets_.data());
    args.lse = lse_.data();
    args.dloss = grads_out[0].data();
    args.dlogits = dlogits.data();
    args.rows = targets_.num_elements();
    args.classes = columns_.classes;
    args.stride = logits_.shape().dim(-1);
    args.first_class = columns_.first;
    args.all_classes = columns_.all_classes;
    args.smoothing = smoothing_;
    args.dtype = logits_.dtype();
    const absl::Status done = Launch(backend, backend.kernels().cross_entropy_backward, args);
    if (!done.ok()) return sink.Fail(done);
    logits_ = Tensor();
    sink.Add(0, dlogits);
  }

 private:
  Tensor logits_;
  const Tensor targets_, lse_;
  const Columns columns_;
  const double smoothing_;
};

absl::Status Check(const TensorGroup& group, const Tensor& logits, const Tensor& targets,
                   const ops::CrossEntropyOptions& options) {
  ARMATURE_RETURN_IF_ERROR(logits.status());
  ARMATURE_RETURN_IF_ERROR(targets.status());
  const int rank = targets.shape().rank();
  if (logits.shape().rank() == rank + 1 && logits.shape().dims().first(rank) == targets.shape().dims() &&
      targets.dtype() == DType::kI32 && IsFloat(logits.dtype()) && options.classes > 0 &&
      options.classes <= group.size() * logits.shape().dim(-1) && options.smoothing >= 0 &&
      options.smoothing < 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      kName, ": logits ", logits.shape().ToString(), " ", Name(logits.dtype()), ", targets ",
      targets.shape().ToString(), " ", Name(targets.dtype()), ", classes ", options.classes, ", smoothing ",
      options.smoothing, ": float logits [..., n], i32 targets [...], 0 < classes <= ", group.size(),
      " n and smoothing in [0, 1) are needed"));
}

// The statistics of every rank's columns, [size, rows, kCrossEntropyStatistics].
absl::StatusOr<Tensor> GatherStatistics(const TensorGroup& group, const Tensor& logits, const Tensor& targets,
                                        const Columns& columns, bool with_sum) {
  Backend& backend = logits.backend();
  const Tensor all = Tensor::Empty(backend, {group.size(), targets.num_elements(), kCrossEntropyStatistics},
                                   DType::kF64, MemoryCategory::kCommunication);
  ARMATURE_RETURN_IF_ERROR(all.status());
  const Tensor own = all.Slice(group.rank(), group.rank() + 1);
  CrossEntropyPartArgs args;
  args.logits = logits.data();
  args.targets = static_cast<const int32_t*>(targets.data());
  args.statistics = static_cast<double*>(own.data());
  args.rows = targets.num_elements();
  args.classes = columns.classes;
  args.stride = logits.shape().dim(-1);
  args.first_class = columns.first;
  args.with_sum = with_sum;
  args.dtype = logits.dtype();
  ARMATURE_RETURN_IF_ERROR(Launch(backend, backend.kernels().cross_entropy_part, args));
  ARMATURE_RETURN_IF_ERROR(group.communicator->AllGather(own.view(), all.view()).Wait());
  return all;
}

// The sum of the losses []; also writes each row's log of the sum of exponentials.
absl::StatusOr<Tensor> Join(const Tensor& logits, const Tensor& targets, const Tensor& statistics,
                            int64_t classes, double smoothing, const Tensor& lse) {
  Backend& backend = logits.backend();
  const Tensor losses = Tensor::Empty(backend, lse.shape(), lse.dtype(), MemoryCategory::kActivations);
  ARMATURE_RETURN_IF_ERROR(losses.status());
  Tensor loss = Tensor::Empty(backend, Shape(), lse.dtype(), MemoryCategory::kActivations);
  ARMATURE_RETURN_IF_ERROR(loss.status());
  CrossEntropyJoinArgs args;
  args.statistics = static_cast<const double*>(statistics.data());
  args.targets = static_cast<const int32_t*>(targets.data());
  args.losses = losses.data();
  args.lse = lse.data();
  args.parts = statistics.shape().dim(0);
  args.rows = targets.num_elements();
  args.classes = classes;
  args.smoothing = smoothing;
  args.dtype = logits.dtype();
  ARMATURE_RETURN_IF_ERROR(Launch(backend, backend.kernels().cross_entropy_join, args));
  SumArgs sum;
  sum.x = losses.data();
  sum.out = loss.data();
  sum.count = losses.num_elements();
  sum.dtype = losses.dtype();
  ARMATURE_RETURN_IF_ERROR(Launch(backend, backend.kernels().sum, sum));
  return loss;
}

}  // namespace

Tensor ParallelCrossEntropy(const TensorGroup& group, const Tensor& logits, const Tensor& targets,
                            const ops::CrossEntropyOptions& options) {
  if (group.size() == 1) return ops::CrossEntropy(logits, targets, options);
  const absl::Status status = Check(group, logits, targets, options);
  if (!status.ok()) return FailGroup(group, status);
  const int64_t width = logits.shape().dim(-1);
  Columns columns;
  columns.first = group.rank() * width;
  columns.all_classes = options.classes;
  columns.classes = std::clamp<int64_t>(columns.all_classes - columns.first, 0, width);
  const absl::StatusOr<Tensor> statistics =
      GatherStatistics(group, logits, targets, columns, options.smoothing > 0);
  if (!statistics.ok()) return FailGroup(group, statistics.status());
  const Tensor lse =
      Tensor::Empty(logits.backend(), targets.shape(),
                    logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32, MemoryCategory::kActivations);
  if (!lse.ok()) return FailGroup(group, lse.status());
  const absl::StatusOr<Tensor> loss =
      Join(logits, targets, *statistics, options.classes, options.smoothing, lse);
  if (!loss.ok()) return FailGroup(group, loss.status());
  return RecordIfOnTape(*loss, {logits}, [&] {
    return std::make_unique<ParallelCrossEntropyFunction>(logits.Detach(), targets, lse, columns,
                                                          options.smoothing);
  });
}

}  // namespace armature
