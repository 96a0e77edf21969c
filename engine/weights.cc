// ExportWeights and ImportWeights.
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/engine/engine_impl.h"

namespace armature {
namespace {

absl::Status CheckFits(const NamedBuffer& given, const NamedBuffer& own) {
  if (given.shape == own.shape && given.view.dtype == own.view.dtype && given.view.count == own.view.count &&
      (given.view.count == 0 || given.view.data != nullptr)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("weight ", own.name, " is ", given.shape.ToString(), " ", Name(given.view.dtype), " with ",
                   given.view.data == nullptr ? 0 : given.view.count, " elements, the model's is ",
                   own.shape.ToString(), " ", Name(own.view.dtype)));
}

// The buffer to import for each of `own`, in its order.
absl::StatusOr<std::vector<BufferView>> Match(absl::Span<const NamedBuffer> own,
                                              absl::Span<const NamedBuffer> given) {
  absl::flat_hash_map<absl::string_view, const NamedBuffer*> by_name;
  for (const NamedBuffer& buffer : given) {
    if (!by_name.emplace(buffer.name, &buffer).second) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", buffer.name, " is given twice"));
    }
  }
  std::vector<BufferView> matches;
  for (const NamedBuffer& weight : own) {
    const auto found = by_name.find(weight.name);
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", weight.name, " is missing"));
    }
    ARMATURE_RETURN_IF_ERROR(CheckFits(*found->second, weight));
    matches.push_back(found->second->view);
    by_name.erase(found);
  }
  if (by_name.empty()) return matches;
  return absl::InvalidArgumentError(absl::StrCat("the model has no weight ", by_name.begin()->first));
}

}  // namespace

absl::Status Engine::Impl::Export(const std::function<absl::Status(const NamedBuffer&)>& sink) {
  for (const NamedBuffer& weight : worker_->store().Weights()) ARMATURE_RETURN_IF_ERROR(sink(weight));
  return absl::OkStatus();
}

absl::Status Engine::Impl::Import(absl::Span<const NamedBuffer> weights) {
  const std::vector<NamedBuffer> own = worker_->store().Weights();
  ARMATURE_ASSIGN_OR_RETURN(const std::vector<BufferView> matches, Match(own, weights));
  absl::Status status;
  thread_->Run([&] {
    for (size_t i = 0; i < own.size() && status.ok(); ++i) {
      status = AddContext(worker_->backend().Copy(own[i].view, matches[i]), "weight ", own[i].name);
    }
  });
  if (!status.ok()) gate_.Fail(status);  // some are replaced, others are not
  return status;
}

}  // namespace armature
