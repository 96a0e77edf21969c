// Parameters as layers and optimizers see them. Layers declare ParameterSpecs and borrow weights from a
// ParameterSource; optim/shard implements the source (flat buckets, mixed precision, ZeRO). Neither sees the
// other.
#ifndef ARMATURE_TENSOR_PARAMETER_H_
#define ARMATURE_TENSOR_PARAMETER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/shape.h"
#include "armature/tensor/sharding.h"
#include "armature/tensor/tensor.h"

namespace armature {

class Tape;

// Initial values, from the counter-based generator keyed by (seed, the parameter's name) and the element's
// index in the whole parameter: the same on every layout of ranks.
struct Initializer {
  enum class Kind { kConstant, kNormal, kUniform };
  Kind kind = Kind::kConstant;
  double offset = 0;  // the constant, the mean, or the lower end
  double scale = 0;   // the standard deviation, or the length of the interval

  static Initializer Constant(double value) { return {Kind::kConstant, value, 0}; }
  static Initializer Normal(double stddev) { return {Kind::kNormal, 0, stddev}; }
  static Initializer Uniform(double bound) { return {Kind::kUniform, -bound, 2 * bound}; }
  // Uniform in +-sqrt(6 / (fan_in + fan_out)). The fans are those of the whole weight, not of a shard.
  // Reference: Glorot, Bengio, "Understanding the difficulty of training deep feedforward neural networks"
  // (2010).
  static Initializer XavierUniform(int64_t fan_in, int64_t fan_out);
};

struct ParameterSpec {
  std::string name;  // "h.3.attn.c_attn.weight": unique in the model, and the checkpoint's key
  Shape global_shape;
  Initializer init;
  Sharding sharding = {};  // over the tensor axis

  // Of this rank's tensor.
  Shape LocalShape() const { return armature::LocalShape(global_shape, sharding); }
  std::vector<ShardPiece> Pieces() const { return PiecesOf(global_shape, sharding); }
};

// A parameter's number in its registry.
struct ParameterId {
  int index = -1;
  friend bool operator==(ParameterId a, ParameterId b) { return a.index == b.index; }
};

// The parameters of the blocks that one rank owns, in the order of their declaration.
class ParameterRegistry {
 public:
  // Errors: AlreadyExists if the name is taken; InvalidArgument, with the name, if the sharding does not fit
  // the shape.
  absl::StatusOr<ParameterId> Add(ParameterSpec spec);
  // Errors: NotFound, with the name.
  absl::StatusOr<ParameterId> Find(absl::string_view name) const;
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  // Of the whole parameters.
  int64_t num_elements() const;

 private:
  std::vector<ParameterSpec> specs_;
};

// Writes the spec's initial values of elements [offset, offset + out.count) of this rank's tensor (in
// row-major order) to `out`, on the backend. Padding is 0.
absl::Status Initialize(Backend& backend, const ParameterSpec& spec, uint64_t seed, int64_t offset,
                        BufferView out);

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // The compute copy of this rank's part: cast, gathered if sharded, and watched by `tape` unless that is
  // null. Valid until the end of the block.
  virtual Tensor Borrow(ParameterId id, Tape* tape) = 0;
  // A block of the model begins and ends to use its parameters, in the forward or in the backward; Prefetch
  // says which comes next. For sources that have them only for a while: a weight that was borrowed in the
  // forward is there again from BeginBlock to EndBlock of the backward.
  virtual absl::Status BeginBlock(int /*block*/) { return absl::OkStatus(); }
  virtual void EndBlock(int /*block*/) {}
  virtual void Prefetch(int /*block*/) {}
  // The backward has passed the block: the gradients of the parameters that it and later blocks declared are
  // complete.
  virtual void EndBackward(int /*block*/) {}
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_PARAMETER_H_
