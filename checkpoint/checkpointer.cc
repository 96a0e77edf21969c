#include "armature/checkpoint/checkpointer.h"

#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/durable_files.h"
#include "armature/checkpoint/manifest.h"
#include "armature/checkpoint/step_directories.h"
#include "armature/checkpoint/utf8.h"

namespace armature {
namespace {

// One file for each writing rank.
std::string ShardFileName(int rank) { return absl::StrFormat("rank-%05d.safetensors", rank); }

absl::StatusOr<std::vector<HostSlice>> ToHostSlices(absl::Span<const ShardedArray> arrays) {
  std::vector<HostSlice> slices;
  for (const ShardedArray& array : arrays) {
    ARMATURE_RETURN_IF_ERROR(CheckArray(array));
    const absl::string_view bytes(static_cast<const char*>(array.local.data), array.local.size_bytes());
    slices.push_back({array.name, array.local.dtype, array.global_shape, array.slice, bytes, array.primary});
  }
  return slices;
}

// Lets slice i, which is that of array i, point into a row-major copy of it. Returns the copies. Without
// `all` only what does not lie row-major is copied.
absl::StatusOr<std::vector<std::unique_ptr<char[]>>> CopyBytes(absl::Span<const ShardedArray> arrays,
                                                               bool all, std::vector<HostSlice>& slices) {
  std::vector<std::unique_ptr<char[]>> copies;
  for (size_t i = 0; i < arrays.size(); ++i) {
    HostSlice& slice = slices[i];
    if (!slice.primary || slice.bytes.empty() || (!all && arrays[i].strides.empty())) continue;
    std::unique_ptr<char[]> copy(new (std::nothrow) char[slice.bytes.size()]);
    if (copy == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for a copy of tensor ", slice.name, ", ", slice.bytes.size(), " bytes"));
    }
    CopyShared(slice.slice, slice.dtype, slice.bytes.data(), slice.slice, slice.dtype, copy.get(),
               arrays[i].strides);
    slice.bytes = absl::string_view(copy.get(), slice.bytes.size());
    copies.push_back(std::move(copy));
  }
  return copies;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpointer>> Checkpointer::Open(FileSystem& files, absl::string_view root,
                                                                 CheckpointOptions options) {
  if (FindInvalidUtf8(options.model) >= 0)
    return absl::InvalidArgumentError("CheckpointOptions.model is not UTF-8");
  if (FindInvalidUtf8(options.config) >= 0)
    return absl::InvalidArgumentError("CheckpointOptions.config is not UTF-8");
  std::unique_ptr<Checkpointer> checkpointer(new Checkpointer(files, root, std::move(options)));
  if (checkpointer->options_.read_only) {
    ARMATURE_RETURN_IF_ERROR(files.Stat(root).status(), "checkpoints");
    return checkpointer;
  }
  ARMATURE_RETURN_IF_ERROR(MakeDurableDirectories(files, root), "checkpoints");
  ARMATURE_ASSIGN_OR_RETURN(checkpointer->lock_, files.Lock(checkpointer->PathOf("LOCK")), "checkpoints");
  return checkpointer;
}

Checkpointer::Checkpointer(FileSystem& files, absl::string_view root, CheckpointOptions options)
    : files_(files), root_(root), options_(std::move(options)) {}

Checkpointer::~Checkpointer() { WaitForWriter(); }

std::string Checkpointer::PathOf(absl::string_view name) const { return absl::StrCat(root_, "/", name); }

void Checkpointer::WaitForWriter() {
  if (writer_.joinable()) writer_.join();
}

absl::Status Checkpointer::TakeErrorOfLastSave() {
  if (!last_save_ || last_save_->shared_->was_reported) return absl::OkStatus();
  return AddContext(last_save_->Wait().status(), "the save before this one");
}

absl::StatusOr<SaveHandle> Checkpointer::Save(int64_t step, absl::Span<const ShardedArray> arrays,
                                              const TrainState& state) {
  if (options_.read_only)
    return absl::FailedPreconditionError(absl::StrCat(root_, " is open for reading only"));
  if (step < 0) return absl::InvalidArgumentError(absl::StrCat("step ", step, " is negative"));
  WaitForWriter();
  ARMATURE_RETURN_IF_ERROR(TakeErrorOfLastSave());
  ARMATURE_ASSIGN_OR_RETURN(std::vector<HostSlice> slices, ToHostSlices(arrays));
  ARMATURE_ASSIGN_OR_RETURN(auto copies, CopyBytes(arrays, options_.background, slices));
  if (!options_.background) return SaveHandle(Write(step, slices, state));
  SaveHandle save;
  try {
    writer_ = std::thread([this, step, state, copies = std::move(copies), slices = std::move(slices),
                           shared = save.shared_] { shared->promise.set_value(Write(step, slices, state)); });
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(absl::StrCat("no thread to write step ", step, ": ", error.what()));
  }
  last_save_ = save;
  return save;
}

absl::StatusOr<SaveReport> Checkpointer::Write(int64_t step, absl::Span<const HostSlice> slices,
                                               const TrainState& state) {
  absl::StatusOr<int64_t> size_bytes = WriteAside(step, slices, state);
  absl::Status status = size_bytes.status();
  if (status.ok()) status = PublishStep(files_, root_, step);
  if (!status.ok()) {
    // A disk that is full or gone may refuse this too; the next save tries again.
    files_.RemoveTree(PathOf(PartialName(step))).IgnoreError();
    return AddContext(status, "saving step ", step);
  }
  return SaveReport{step, PathOf(StepName(step)), *size_bytes, Cleanup(step)};
}

absl::StatusOr<int64_t> Checkpointer::WriteAside(int64_t step, absl::Span<const HostSlice> slices,
                                                 const TrainState& state) {
  const std::string directory = PathOf(PartialName(step));
  ARMATURE_RETURN_IF_ERROR(files_.RemoveTree(directory));
  ARMATURE_RETURN_IF_ERROR(files_.MakeDirectories(directory));
  ARMATURE_ASSIGN_OR_RETURN(const Shard shard, WriteShard(files_, directory, ShardFileName(0), slices));

  Manifest manifest;
  manifest.set_format(kManifestFormat);
  manifest.set_step(step);
  manifest.set_model(options_.model);
  manifest.set_config(options_.config);
  *manifest.mutable_state() = state;
  ARMATURE_RETURN_IF_ERROR(AddShards({shard}, manifest));
  ARMATURE_ASSIGN_OR_RETURN(const std::string bytes, EncodeManifest(manifest));
  ARMATURE_RETURN_IF_ERROR(WriteDurably(files_, absl::StrCat(directory, "/", kManifestFileName), bytes));

  ARMATURE_ASSIGN_OR_RETURN(const Manifest read_back, ReadManifest(PartialName(step)));
  ARMATURE_RETURN_IF_ERROR(VerifiedShards::Open(files_, directory, read_back).status(), "reading back");
  return shard.file().size_bytes() + static_cast<int64_t>(bytes.size());
}

absl::Status Checkpointer::Cleanup(int64_t just_written) {
  ARMATURE_ASSIGN_OR_RETURN(const StepListing listing, ListSteps(files_, root_));
  absl::Status first_error;
  for (const std::string& name : listing.leftovers) first_error.Update(files_.RemoveTree(PathOf(name)));
  std::vector<int64_t> steps;
  for (const auto& step : listing.complete) steps.push_back(step.first);
  for (int64_t step : StepsToRemove(steps, just_written, options_.retention)) {
    first_error.Update(RemoveStep(files_, root_, step, listing.complete.at(step)));
  }
  return first_error;
}

absl::StatusOr<std::vector<int64_t>> Checkpointer::Steps() const {
  ARMATURE_ASSIGN_OR_RETURN(const StepListing listing, ListSteps(files_, root_));
  std::vector<int64_t> steps;
  for (const auto& step : listing.complete) steps.push_back(step.first);
  return steps;
}

absl::StatusOr<Manifest> Checkpointer::ReadManifest(absl::string_view directory_name) const {
  const absl::StatusOr<std::string> bytes =
      files_.Read(absl::StrCat(PathOf(directory_name), "/", kManifestFileName));
  if (absl::IsNotFound(bytes.status()))
    return absl::DataLossError(absl::StrCat("file ", kManifestFileName, " is missing"));
  ARMATURE_RETURN_IF_ERROR(bytes.status());
  return AddContext(DecodeManifest(*bytes), "file ", kManifestFileName);
}

absl::StatusOr<RestoredCheckpoint> Checkpointer::RestoreFrom(int64_t step, absl::string_view directory_name,
                                                             absl::Span<const ShardedArray> into,
                                                             const RestoreOptions& options) const {
  ARMATURE_ASSIGN_OR_RETURN(Manifest manifest, ReadManifest(directory_name));
  if (manifest.step() != step) {
    return absl::DataLossError(
        absl::StrCat("file ", kManifestFileName, " is that of step ", manifest.step()));
  }
  if (!options_.model.empty() && manifest.model() != options_.model) {
    return absl::InvalidArgumentError(absl::StrCat("a checkpoint of the model \"", manifest.model(),
                                                   "\", and this is \"", options_.model, "\""));
  }
  ARMATURE_RETURN_IF_ERROR(CheckFits(manifest, into, options));
  ARMATURE_ASSIGN_OR_RETURN(const VerifiedShards shards,
                            VerifiedShards::Open(files_, PathOf(directory_name), manifest));
  CopyInto(manifest, shards, into);
  RestoredCheckpoint restored;
  restored.step = step;
  restored.state = std::move(*manifest.mutable_state());
  restored.config = std::move(*manifest.mutable_config());
  return restored;
}

absl::StatusOr<RestoredCheckpoint> Checkpointer::Restore(int64_t step, absl::Span<const ShardedArray> into,
                                                         const RestoreOptions& options) {
  WaitForWriter();
  ARMATURE_ASSIGN_OR_RETURN(const StepListing listing, ListSteps(files_, root_));
  const auto found = listing.complete.find(step);
  if (found == listing.complete.end()) {
    return absl::NotFoundError(absl::StrCat(root_, " has no checkpoint of step ", step));
  }
  return AddContext(RestoreFrom(step, found->second, into, options), PathOf(found->second));
}

absl::StatusOr<RestoredCheckpoint> Checkpointer::RestoreLatest(absl::Span<const ShardedArray> into,
                                                               const RestoreOptions& options) {
  WaitForWriter();
  ARMATURE_ASSIGN_OR_RETURN(const StepListing listing, ListSteps(files_, root_));
  std::vector<std::string> skipped;
  for (const std::string& name : listing.leftovers)
    skipped.push_back(absl::StrCat(PathOf(name), ": not complete"));
  for (auto step = listing.complete.rbegin(); step != listing.complete.rend(); ++step) {
    absl::StatusOr<RestoredCheckpoint> restored =
        AddContext(RestoreFrom(step->first, step->second, into, options), PathOf(step->second));
    if (restored.ok()) restored->skipped = std::move(skipped);
    if (!absl::IsDataLoss(restored.status())) return restored;
    skipped.emplace_back(restored.status().message());
  }
  const std::string why = skipped.empty() ? "" : absl::StrCat(" (", absl::StrJoin(skipped, "; "), ")");
  if (!listing.complete.empty())
    return absl::DataLossError(absl::StrCat("every checkpoint in ", root_, " is damaged", why));
  return absl::NotFoundError(absl::StrCat("no complete checkpoint in ", root_, why));
}

}  // namespace armature
