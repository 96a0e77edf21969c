#include "armature/tensor/parameter.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/tensor/random.h"

namespace armature {

Initializer Initializer::XavierUniform(int64_t fan_in, int64_t fan_out) {
  return Uniform(std::sqrt(6.0 / static_cast<double>(fan_in + fan_out)));
}

absl::StatusOr<ParameterId> ParameterRegistry::Add(ParameterSpec spec) {
  if (Find(spec.name).ok())
    return absl::AlreadyExistsError(absl::StrCat("two parameters are named ", spec.name));
  ARMATURE_RETURN_IF_ERROR(CheckSharding(spec.global_shape, spec.sharding), "parameter ", spec.name);
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
  for (const ParameterSpec& spec : specs_) count += spec.global_shape.num_elements();
  return count;
}

namespace {

// Elements [offset, offset + count) of the whole parameter.
absl::Status InitializeRun(Backend& backend, const ParameterSpec& spec, uint64_t seed, int64_t offset,
                           int64_t count, void* out, DType dtype) {
  Stream& stream = backend.compute_stream();
  if (spec.init.kind == Initializer::Kind::kConstant) {
    FillArgs args;
    args.y = out;
    args.count = count;
    args.value = spec.init.offset;
    args.dtype = dtype;
    return backend.kernels().fill(stream, args);
  }
  RandomFillArgs args;
  args.y = out;
  args.region.key = MakeRandomKey(seed, RandomPurpose::kInitialize, 0, StableHash(spec.name));
  args.region.rows = 1;
  args.region.cols = count;
  args.region.col_offset = offset;
  args.normal = spec.init.kind == Initializer::Kind::kNormal;
  args.offset = spec.init.offset;
  args.scale = spec.init.scale;
  args.dtype = dtype;
  return backend.kernels().random_fill(stream, args);
}

}  // namespace

absl::Status Initialize(Backend& backend, const ParameterSpec& spec, uint64_t seed, int64_t offset,
                        BufferView out) {
  const int64_t end = offset + out.count;
  int64_t initialised = 0;
  const std::vector<ShardRun> runs = RunsOf(spec.global_shape, spec.sharding, offset, end);
  for (const ShardRun& run : runs) initialised += run.count;
  if (initialised < out.count) {
    FillArgs zeros;
    zeros.y = out.data;
    zeros.count = out.count;
    zeros.dtype = out.dtype;
    ARMATURE_RETURN_IF_ERROR(backend.kernels().fill(backend.compute_stream(), zeros));
  }
  for (const ShardRun& run : runs) {
    void* data = static_cast<char*>(out.data) + (run.local - offset) * SizeOf(out.dtype);
    ARMATURE_RETURN_IF_ERROR(InitializeRun(backend, spec, seed, run.global, run.count, data, out.dtype));
  }
  return absl::OkStatus();
}

}  // namespace armature
