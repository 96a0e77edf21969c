#include "armature/tensor/ops/embedding.h"

#include <memory>
#include <utility>
#include <vector>

#include "armature/tensor/ops/op_support.h"

namespace armature {
namespace ops {
namespace {

constexpr absl::string_view kName = "Embedding";

class EmbeddingFunction : public Function {
 public:
  EmbeddingFunction(Tensor ids, int64_t rows, int64_t first_row)
      : ids_(std::move(ids)), rows_(rows), first_row_(first_row) {}

  absl::string_view name() const override { return kName; }
  absl::InlinedVector<Tensor, 4> saved() const override { return {ids_}; }

  void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) override {
    const GradientSlot slot = sink.WideSlot(0);
    if (!slot.tensor.ok()) return;
    const Tensor& dout = grads_out[0];
    EmbeddingBackwardArgs args;
    args.dout = dout.data();
    args.ids = static_cast<const int32_t*>(ids_.data());
    args.dtable = slot.tensor.data();
    args.count = ids_.num_elements();
    args.rows = rows_;
    args.cols = dout.shape().dim(-1);
    args.first_row = first_row_;
    args.dtype = dout.dtype();
    args.table_grad_dtype = slot.tensor.dtype();
    args.accumulate = slot.accumulate;
    sink.Fail(Launch(dout.backend(), dout.backend().kernels().embedding_backward, args, kName));
  }

 private:
  const Tensor ids_;
  const int64_t rows_, first_row_;
};

}  // namespace

Tensor Embedding(const Tensor& table, const Tensor& ids, int64_t first_row) {
  const absl::Status status = FirstError({&table, &ids});
  if (!status.ok()) return Tensor::Failed(status);
  if (table.shape().rank() != 2 || !IsFloat(table.dtype()) || ids.dtype() != DType::kI32 ||
      ids.shape().rank() >= Shape::kMaxRank) {
    return Invalid(kName, ": table ", Describe(table), ", ids ", Describe(ids),
                   ": a float table [rows, n] and i32 ids are needed");
  }
  std::vector<int64_t> dims(ids.shape().dims().begin(), ids.shape().dims().end());
  dims.push_back(table.shape().dim(1));
  Tensor y = NewLike(table, Shape(absl::MakeConstSpan(dims)), table.dtype());
  if (!y.ok()) return y;
  EmbeddingArgs args;
  args.table = table.data();
  args.ids = static_cast<const int32_t*>(ids.data());
  args.out = y.data();
  args.count = ids.num_elements();
  args.rows = table.shape().dim(0);
  args.cols = table.shape().dim(1);
  args.first_row = first_row;
  args.dtype = table.dtype();
  const absl::Status done = Launch(table.backend(), table.backend().kernels().embedding, args, kName);
  if (!done.ok()) return Tensor::Failed(done);
  return RecordIfOnTape(std::move(y), {table}, [&] {
    return std::make_unique<EmbeddingFunction>(ids, table.shape().dim(0), first_row);
  });
}

}  // namespace ops
}  // namespace armature
