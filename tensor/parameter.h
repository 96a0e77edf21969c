// Parameters as layers and optimizers see them. Layers declare ParameterSpecs and borrow weights from a
// ParameterSource; optim/shard implements the source (flat buckets, mixed precision, ZeRO). Neither sees the
// other.
#ifndef ARMATURE_TENSOR_PARAMETER_H_
#define ARMATURE_TENSOR_PARAMETER_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "armature/tensor/backend.h"
#include "armature/tensor/shape.h"
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
  Shape shape;
  Initializer init;
};

// A parameter's number in its registry.
struct ParameterId {
  int index = -1;
  friend bool operator==(ParameterId a, ParameterId b) { return a.index == b.index; }
};

// The parameters of the blocks that one rank owns, in the order of their declaration.
class ParameterRegistry {
 public:
  // Errors: AlreadyExists if the name is taken.
  absl::StatusOr<ParameterId> Add(ParameterSpec spec);
  // Errors: NotFound, with the name.
  absl::StatusOr<ParameterId> Find(absl::string_view name) const;
  const std::vector<ParameterSpec>& specs() const { return specs_; }
  int64_t num_elements() const;

 private:
  std::vector<ParameterSpec> specs_;
};

// Writes the spec's initial values of elements [offset, offset + count) of the whole parameter to `out`, on
// the backend.
absl::Status Initialize(Backend& backend, const ParameterSpec& spec, uint64_t seed, int64_t offset,
                        BufferView out);

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  // The compute copy of this rank's part: cast, gathered if sharded, and watched by `tape` unless that is
  // null. Valid until the end of the block.
  virtual Tensor Borrow(ParameterId id, Tape* tape) = 0;
};

}  // namespace armature

#endif  // ARMATURE_TENSOR_PARAMETER_H_
