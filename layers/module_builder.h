// ModuleBuilder: where layers declare their parameters while a block is built.
//
//   Mlp::Mlp(ModuleBuilder& builder, int64_t hidden)
//       : up_(builder.Scope("c_fc"), {hidden, 4 * hidden}), down_(builder.Scope("c_proj"), {4 * hidden,
//       hidden}) {}
//
// A layer's constructor can't fail: what is wrong is kept in the builder, and comes out once, where the
// engine is made.
#ifndef ARMATURE_LAYERS_MODULE_BUILDER_H_
#define ARMATURE_LAYERS_MODULE_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "armature/tensor/parameter.h"

namespace armature {

// Cheap to copy; copies share the registry and the error.
class ModuleBuilder {
 public:
  // What the builders of one block share. Must outlive them.
  struct Shared {
    ParameterRegistry* registry = nullptr;
    int block = 0;  // the block's index in the model
    int num_layers = 0;
    absl::Status status;
    // This rank's place on the tensor axis.
    int tensor_rank = 0;
    int tensor_size = 1;
    // Between tensor-parallel regions a rank holds a slice of the sequence (layers/parallel/tensor_group.h).
    bool sequence_parallel = false;
  };
  explicit ModuleBuilder(Shared& shared) : shared_(&shared) {}

  // A builder whose names begin with "name.".
  ModuleBuilder Scope(absl::string_view name) const;

  // Declares a parameter "scope.name" of that whole shape. A name that exists fails the build.
  ParameterId Parameter(absl::string_view name, const Shape& global_shape, const Initializer& init,
                        const Sharding& sharding = {});
  // The parameter with that full name, declared by this or by an earlier block: a tied weight. Its shape must
  // be `global_shape`, split in the same way. On a rank that doesn't own the earlier block it is declared
  // here, with `init`.
  ParameterId Tied(absl::string_view full_name, const Shape& global_shape, const Initializer& init,
                   const Sharding& sharding = {});

  // How a parameter lies on the tensor axis: split along `dim` (each of the sections by itself), ...
  Sharding Split(int dim, std::vector<int64_t> sections = {}) const;
  // ... split, with padding where the ranks don't divide the dimension, ...
  Sharding SplitPadded(int dim) const;
  // ... or the whole on every rank, for a layer that works on what lies between tensor-parallel regions: a
  // slice of the sequence, if sequence parallelism is on.
  Sharding WholeOnSlices() const;
  int tensor_rank() const { return shared_->tensor_rank; }
  int tensor_size() const { return shared_->tensor_size; }

  // A number for a layer that draws random numbers: unique in the model and the same on every layout of
  // ranks.
  int64_t NextLayer();

  // Keeps the first error.
  void Fail(const absl::Status& why);
  const absl::Status& status() const { return shared_->status; }

 private:
  Shared* shared_;
  std::string prefix_;
};

}  // namespace armature

#endif  // ARMATURE_LAYERS_MODULE_BUILDER_H_
