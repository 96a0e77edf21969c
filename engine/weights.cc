// ExportWeights and ImportWeights.
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"
#include "armature/engine/whole_arrays.h"

namespace armature {
namespace {

absl::Status CheckFits(const NamedBuffer& given, const ParameterSpec& own) {
  const int64_t elements = own.global_shape.num_elements();
  if (given.shape == own.global_shape && given.view.dtype == DType::kF32 && given.view.count == elements &&
      (elements == 0 || given.view.data != nullptr)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("weight ", own.name, " is ", given.shape.ToString(), " ", Name(given.view.dtype), " with ",
                   given.view.data == nullptr ? 0 : given.view.count, " elements, the model's is ",
                   own.global_shape.ToString(), " f32"));
}

using BuffersByName = absl::flat_hash_map<absl::string_view, const NamedBuffer*>;

// Checks that there is one buffer for each parameter, and no other.
absl::StatusOr<BuffersByName> Match(const std::vector<ParameterSpec>& own,
                                    absl::Span<const NamedBuffer> given) {
  BuffersByName by_name;
  for (const NamedBuffer& buffer : given) {
    if (!by_name.emplace(buffer.name, &buffer).second) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", buffer.name, " is given twice"));
    }
  }
  BuffersByName matched;
  for (const ParameterSpec& parameter : own) {
    const auto found = by_name.find(parameter.name);
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", parameter.name, " is missing"));
    }
    ARMATURE_RETURN_IF_ERROR(CheckFits(*found->second, parameter));
    matched.insert(*found);
    by_name.erase(found);
  }
  if (by_name.empty()) return matched;
  return absl::InvalidArgumentError(absl::StrCat("the model has no weight ", by_name.begin()->first));
}

}  // namespace

std::vector<ShardedArray> Engine::Impl::Slices(ParameterStore::Kind kind, bool once) {
  std::vector<ShardedArray> all;
  for (int i = 0; i < ranks_->count(); ++i) {
    for (ShardedArray& slice : ranks_->worker(i).store().Slices(kind, once)) all.push_back(std::move(slice));
  }
  return all;
}

// After masters were written through Slices.
absl::Status Engine::Impl::ShareWeights() {
  const absl::Status shared = ranks_->Run([](RankWorker& worker) { return worker.store().ShareWeights(); });
  if (!shared.ok()) gate_.Fail(shared);  // ranks may differ now
  return shared;
}

absl::Status Engine::Impl::Export(const std::function<absl::Status(const NamedBuffer&)>& sink) {
  return ForEachWhole(ranks_->worker(0).registry().specs(),
                      Slices(ParameterStore::Kind::kWeights, /*once=*/true), sink);
}

absl::Status Engine::Impl::Import(absl::Span<const NamedBuffer> weights) {
  ARMATURE_ASSIGN_OR_RETURN(const BuffersByName given, Match(ranks_->worker(0).registry().specs(), weights));
  for (const ShardedArray& own : Slices(ParameterStore::Kind::kWeights, /*once=*/false)) {
    CopyShared(WholeSlice(own.global_shape), DType::kF32,
               static_cast<const char*>(given.at(own.name)->view.data), own.slice, own.local.dtype,
               static_cast<char*>(own.local.data), {}, own.strides);
  }
  return ShareWeights();
}

}  // namespace armature
