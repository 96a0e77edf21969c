// Tape: the record of one forward pass, walked backward once. Reverse-mode differentiation over fused
// functions.
//
//   Tape tape(backend);
//   Tensor w = tape.Watch(weight, &target);            // a leaf: its gradient goes to `target`
//   Tensor loss = Forward(x, w);                       // ops record themselves: one of their inputs is on
//   the tape ARMATURE_RETURN_IF_ERROR(tape.Backward({loss}, {seed}));
//
// One tape for each stage and microbatch. It is an object with an owner: nothing is thread-local, and an
// operation records if one of its inputs is on a tape. The walk goes in exactly the reverse of the recorded
// order, without recursion, and a function and all it saved are destroyed as soon as the walk has passed it.
//
// Reference: Griewank, Walther, "Evaluating Derivatives" (2008), chapter 3 (reverse mode).
#ifndef ARMATURE_TENSOR_TAPE_H_
#define ARMATURE_TENSOR_TAPE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "armature/tensor/tensor.h"

namespace armature {

// Where the next contribution to a gradient goes: `tensor` is overwritten, or added to if `accumulate`.
// Writing straight into the place spares a pass over memory, and the first contribution needs no zeros.
struct GradientSlot {
  Tensor tensor;
  bool accumulate = false;
};

// A leaf's side of its gradient: a parameter's place in its flat bucket, a stage's boundary, a test.
class GradientTarget {
 public:
  virtual ~GradientTarget() = default;
  // The place for the next contribution; its dtype may be wider than the leaf's.
  virtual GradientSlot Slot() = 0;
  // The place that Slot gave has been written. Called once for each Slot.
  virtual void Contributed() = 0;
};

// How a function's backward hands on gradients. Indexes are those of the function's inputs, in Record's
// order.
class GradientSink {
 public:
  virtual ~GradientSink() = default;
  // False if input `i` is on no tape: its gradient need not be computed.
  virtual bool Wants(int i) const = 0;
  // The place to write input i's gradient into, of the input's own dtype. Ask only if Wants(i), at most once,
  // and write before asking for the slot of another input (two inputs may be the same value). If the slot's
  // tensor is not ok the backward has failed already: just return.
  virtual GradientSlot Slot(int i) = 0;
  // The same for a function that can write several dtypes: the place may have a wider one than the input,
  // such as f32 for a bf16 weight, and sums lose nothing on the way.
  virtual GradientSlot WideSlot(int i) = 0;
  // Hands on a gradient that is already there, without a copy where possible. Instead of Slot.
  virtual void Add(int i, const Tensor& gradient) = 0;
  // True if the caller of Backward asked to leave weight gradients for RunDeferred.
  virtual bool defer_weight_gradients() const = 0;
  // Runs `compute` in RunDeferred with a sink like this one. What it captures stays alive until then.
  virtual void Defer(std::function<void(GradientSink&)> compute) = 0;
  // Fails the backward with `why`, unless it is OK. The first error counts.
  virtual void Fail(const absl::Status& why) = 0;
};

// What one recorded operation keeps, and how gradients flow back through it.
class Function {
 public:
  virtual ~Function() = default;
  // "Linear": names the operation in errors.
  virtual absl::string_view name() const = 0;
  // grads_out[i] is the gradient of output i, in its shape, or invalid if nothing flowed into it; at least
  // one is valid. Called at most once; the function is destroyed after it.
  virtual void Backward(absl::Span<const Tensor> grads_out, GradientSink& sink) = 0;
  // The tensors that are kept for the backward.
  virtual absl::InlinedVector<Tensor, 4> saved() const { return {}; }
};

// Sees what passes over a tape: for debugging.
class TapeObserver {
 public:
  virtual ~TapeObserver() = default;
  // `function` has recorded these outputs. `leaves` are the targets of those of its inputs that are leaves.
  virtual void OnOutputs(absl::string_view function, absl::Span<GradientTarget* const> leaves,
                         absl::Span<const Tensor> outputs) = 0;
  // Its backward has written these gradients of its inputs, or added to them.
  virtual void OnGradients(absl::string_view function, absl::Span<GradientTarget* const> leaves,
                           absl::Span<const Tensor> gradients) = 0;
};

struct BackwardOptions {
  // Leaves weight gradients of linear layers for RunDeferred: zero-bubble schedules fill bubbles with them.
  bool defer_weight_gradients = false;
  // Asked before each function; an error ends the backward with it. Null: never. For cancellation and
  // deadlines.
  std::function<absl::Status()> check;
};

// Thread-compatible. Must outlive the tensors that are on it.
class Tape {
 public:
  // `observer` may be null, and must outlive the tape.
  explicit Tape(Backend& backend, TapeObserver* observer = nullptr);
  ~Tape();

  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  // The same elements as `value`, as a leaf whose gradient goes to `target`. The value's memory and `target`
  // must live until the backward is over.
  Tensor Watch(const Tensor& value, GradientTarget* target);

  // Puts `outputs` on the tape as results of `function`. Inputs that are invalid, failed or on no tape take
  // no part.
  void Record(std::unique_ptr<Function> function, absl::Span<const Tensor> inputs,
              absl::Span<Tensor> outputs);

  // Walks back from `outputs`, whose gradients are `grads` (same shapes). Outputs on no tape are passed over.
  // Errors: that of the first failed gradient or function, with the operation's name; FailedPrecondition if
  // called twice; InvalidArgument if the numbers of outputs and gradients or a shape differ.
  absl::Status Backward(absl::Span<const Tensor> outputs, absl::Span<const Tensor> grads,
                        const BackwardOptions& options = {});

  // Computes what Backward deferred, in the order in which it was deferred. Nothing to do is OK.
  absl::Status RunDeferred();

  // Bytes that the recorded functions keep for the backward. Memory that several of them share counts once;
  // parameters and other leaves do not count.
  int64_t saved_bytes() const;

  Backend& backend() const { return backend_; }
  TapeObserver* observer() const { return observer_; }

 private:
  class Sink;
  struct Value {
    Shape shape;
    DType dtype = DType::kF32;
    GradientTarget* target = nullptr;  // leaves only
    Tensor gradient;
    const Storage* leaf_storage = nullptr;  // leaves only
  };
  struct Node {
    std::unique_ptr<Function> function;
    absl::InlinedVector<int32_t, 4> inputs;  // values, or -1
    absl::InlinedVector<int32_t, 2> outputs;
  };
  struct Deferred {
    std::string name;  // the function is gone by then
    absl::InlinedVector<int32_t, 4> inputs;
    std::function<void(GradientSink&)> compute;
  };

  using Leaves = absl::InlinedVector<GradientTarget*, 2>;

  Leaves LeavesOf(absl::Span<const int32_t> inputs) const;
  int32_t NewValue(const Tensor& tensor);
  GradientSlot ValueSlot(int32_t value);
  absl::Status AddGradient(int32_t value, const Tensor& gradient);
  absl::Status Seed(const Tensor& output, const Tensor& gradient);
  void FinishNode(Node& node, const BackwardOptions& options);
  void Fail(absl::string_view name, const absl::Status& why);

  Backend& backend_;
  TapeObserver* const observer_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Deferred> deferred_;
  bool walked_ = false;
  absl::Status status_;
};

// Puts `output`, an operation's result, on the tape of the inputs, if one of them is on a tape. `make`
// returns the function and is called only then. A failed output is returned as it is. Inputs on different
// tapes are an error.
Tensor RecordIfOnTape(Tensor output, absl::Span<const Tensor> inputs,
                      absl::FunctionRef<std::unique_ptr<Function>()> make);

}  // namespace armature

#endif  // ARMATURE_TENSOR_TAPE_H_
