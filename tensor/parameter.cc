#include "armature/tensor/parameter.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/tensor/random.h"

namespace armature {

Initializer Initializer::XavierUniform(int64_t fan_in, int64_t fan_out) {
  return Uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

absl::StatusOr<ParameterId> ParameterRegistry::Add(ParameterSpec spec) {
  if (Find(spec.name).ok())
    return absl::AlreadyExistsError(absl::StrCat("two parameters are named ", spec.name));
  specs_.push_back(std::move(spec));
  return ParameterId{static_cast<int>(specs_.size()) - 1};
}

absl::StatusOr<ParameterId> ParameterRegistry::Find(absl::string_view name) const {
  for (size_t i = 0; i < specs_.size(); ++i) {
    if (specs_[i].name == name) return ParameterId{static_cast<int>(i)};
  }
  return absl::NotFoundError(absl::StrCat("no parameter is named ", name));
}

int64_t ParameterRegistry::num_elements() const {
  int64_t count = 0;
  for (const ParameterSpec& spec : specs_) count += spec.shape.num_elements();
  return count;
}

absl::Status Initialize(Backend& backend, const ParameterSpec& spec, uint64_t seed, int64_t offset,
                        BufferView out) {
  Stream& stream = backend.compute_stream();
  if (spec.init.kind == Initializer::Kind::kConstant) {
    FillArgs args;
    args.y = out.data;
    args.count = out.count;
    args.value = spec.init.offset;
    args.dtype = out.dtype;
    return backend.kernels().fill(stream, args);
  }
  RandomFillArgs args;
  args.y = out.data;
  args.region.key = MakeRandomKey(seed, RandomPurpose::kInitialize, 0, StableHash(spec.name));
  args.region.rows = 1;
  args.region.cols = out.count;
  args.region.col_offset = offset;
  args.normal = spec.init.kind == Initializer::Kind::kNormal;
  args.offset = spec.init.offset;
  args.scale = spec.init.scale;
  args.dtype = out.dtype;
  return backend.kernels().random_fill(stream, args);
}

}  // namespace armature
