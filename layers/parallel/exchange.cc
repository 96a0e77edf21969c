#include "armature/layers/parallel/exchange.h"

#include <algorithm>
#include <utility>

#include "armature/tensor/backend.h"

namespace armature {
namespace {

using comm::ReduceOp;

// A tensor as [outer, whole or part, inner] around the dealt dimension, and its parts as ranks exchange them:
// staged [size, outer, part, inner].
struct Layout {
  Layout(const Shape& shape, const Deal& deal) {
    for (int i = 0; i < shape.rank(); ++i) {
      if (i != deal.dim) (i < deal.dim ? outer : inner) *= shape.dim(i);
    }
    part = deal.part * inner;
    whole = deal.whole * inner;
  }
  // Elements of part `rank` in each row of the whole.
  int64_t Valid(int64_t rank) const { return std::clamp<int64_t>(whole - rank * part, 0, part); }

  int64_t outer = 1, inner = 1;
  int64_t part = 0, whole = 0;  // elements in each of the `outer` rows
};

absl::Status CopyBlocks(Backend& backend, const CopyBlocksArgs& args) {
  if (backend.kernels().copy_blocks == nullptr)
    return absl::UnimplementedError("this backend has no kernel that copies blocks");
  return backend.kernels().copy_blocks(backend.compute_stream(), args);
}

char* At(const Tensor& tensor, int64_t element) {
  return static_cast<char*>(tensor.data()) + element * SizeOf(tensor.dtype());
}

// Parts [first, first + count), all of them with as many valid elements, from `staged` to `whole` or back.
absl::Status MoveParts(const Layout& layout, const Tensor& staged, const Tensor& whole, int64_t first,
                       int64_t count, bool to_whole) {
  const int64_t valid = layout.Valid(first);
  if (count == 0 || valid == 0) return absl::OkStatus();
  char* const in_staged = At(staged, first * layout.outer * layout.part);
  char* const in_whole = At(whole, first * layout.part);
  CopyBlocksArgs args;
  args.x = to_whole ? in_staged : in_whole;
  args.y = to_whole ? in_whole : in_staged;
  args.outer = layout.outer;
  args.inner = count;
  args.block = valid;
  args.x_outer = layout.part;
  args.x_inner = layout.outer * layout.part;
  args.y_outer = layout.whole;
  args.y_inner = layout.part;
  if (!to_whole) {
    std::swap(args.x_outer, args.y_outer);
    std::swap(args.x_inner, args.y_inner);
  }
  args.dtype = whole.dtype();
  return CopyBlocks(whole.backend(), args);
}

Tensor Stage(const Tensor& like, int64_t size, const Layout& layout) {
  return Tensor::Empty(like.backend(), {size, layout.outer, layout.part}, like.dtype(),
                       MemoryCategory::kCommunication);
}

Tensor OrFailed(const absl::Status& status, const Tensor& result) {
  return status.ok() ? result : Tensor::Failed(status);
}

}  // namespace

Tensor FailGroup(const TensorGroup& group, const absl::Status& why) {
  group.communicator->Abort(why);
  return Tensor::Failed(why);
}

Tensor SumOverRanks(const TensorGroup& group, const Tensor& x) {
  if (!x.ok()) return FailGroup(group, x.status());
  Tensor sum;
  if (x.unique()) {
    sum = x.Detach();
  } else {
    sum = Tensor::Empty(x.backend(), x.shape(), x.dtype(), MemoryCategory::kActivations);
    absl::Status status = sum.status();
    if (status.ok()) status = x.backend().Copy(sum.view(), x.view());
    if (!status.ok()) return FailGroup(group, status);
  }
  return OrFailed(group.communicator->AllReduce(sum.view(), ReduceOp::kSum).Wait(), sum);
}

Tensor GatherParts(const TensorGroup& group, const Tensor& part, const Deal& deal) {
  if (!part.ok()) return FailGroup(group, part.status());
  const Layout layout(part.shape(), deal);
  const Tensor whole = Tensor::Empty(part.backend(), part.shape().WithDim(deal.dim, deal.whole), part.dtype(),
                                     MemoryCategory::kActivations);
  if (!whole.ok()) return FailGroup(group, whole.status());
  const int size = group.size();
  if (layout.outer == 1 && layout.whole == size * layout.part)
    return OrFailed(group.communicator->AllGather(part.view(), whole.view()).Wait(), whole);
  const Tensor staged = Stage(part, size, layout);
  if (!staged.ok()) return FailGroup(group, staged.status());
  absl::Status status = group.communicator->AllGather(part.view(), staged.view()).Wait();
  // Parts that are full, and the one that is not.
  const int64_t full = layout.part == 0 ? 0 : layout.whole / layout.part;
  if (status.ok()) status = MoveParts(layout, staged, whole, 0, full, /*to_whole=*/true);
  if (status.ok() && full < size) status = MoveParts(layout, staged, whole, full, 1, /*to_whole=*/true);
  return OrFailed(status, whole);
}

Tensor SumAndDeal(const TensorGroup& group, const Tensor& whole, const Deal& deal) {
  if (!whole.ok()) return FailGroup(group, whole.status());
  const Layout layout(whole.shape(), deal);
  const Tensor part = Tensor::Empty(whole.backend(), whole.shape().WithDim(deal.dim, deal.part),
                                    whole.dtype(), MemoryCategory::kActivations);
  if (!part.ok()) return FailGroup(group, part.status());
  const int size = group.size();
  Tensor staged = whole;
  if (layout.outer > 1) {
    staged = Stage(whole, size, layout);
    absl::Status status = staged.status();
    if (status.ok()) status = MoveParts(layout, staged, whole, 0, size, /*to_whole=*/false);
    if (!status.ok()) return FailGroup(group, status);
  }
  return OrFailed(group.communicator->ReduceScatter(staged.view(), part.view(), ReduceOp::kSum).Wait(), part);
}

Tensor OwnPart(const TensorGroup& group, const Tensor& whole, const Deal& deal) {
  if (!whole.ok()) return FailGroup(group, whole.status());
  const Layout layout(whole.shape(), deal);
  const Shape shape = whole.shape().WithDim(deal.dim, deal.part);
  const int64_t valid = layout.Valid(group.rank());
  const Tensor part =
      valid < layout.part
          ? Tensor::Zeros(whole.backend(), shape, whole.dtype(), MemoryCategory::kActivations)
          : Tensor::Empty(whole.backend(), shape, whole.dtype(), MemoryCategory::kActivations);
  if (!part.ok()) return FailGroup(group, part.status());
  CopyBlocksArgs args;
  args.x = At(whole, group.rank() * layout.part);
  args.y = part.data();
  args.outer = layout.outer;
  args.block = valid;
  args.x_outer = layout.whole;
  args.y_outer = layout.part;
  args.dtype = whole.dtype();
  const absl::Status status = valid == 0 ? absl::OkStatus() : CopyBlocks(whole.backend(), args);
  return status.ok() ? part : FailGroup(group, status);
}

}  // namespace armature
