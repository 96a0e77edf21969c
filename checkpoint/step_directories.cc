#include "armature/checkpoint/step_directories.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace {

constexpr absl::string_view kPrefix = "step-";
constexpr absl::string_view kPartial = ".partial";
constexpr absl::string_view kOld = ".old";

std::string Join(absl::string_view directory, absl::string_view name) {
  return absl::StrCat(directory, "/", name);
}

absl::optional<int64_t> ParseStepName(absl::string_view name) {
  absl::string_view digits = name;
  int64_t step;
  if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::SimpleAtoi(digits, &step)) return absl::nullopt;
  if (step < 0 || StepName(step) != name) return absl::nullopt;
  return step;
}

absl::StatusOr<bool> Exists(FileSystem& files, const std::string& path) {
  const absl::StatusOr<FileInfo> info = files.Stat(path);
  if (absl::IsNotFound(info.status())) return false;
  ARMATURE_RETURN_IF_ERROR(info.status());
  return true;
}

}  // namespace

std::string StepName(int64_t step) { return absl::StrFormat("%s%08d", kPrefix, step); }

std::string PartialName(int64_t step) { return StepName(step).append(kPartial.data(), kPartial.size()); }

absl::StatusOr<StepListing> ListSteps(FileSystem& files, absl::string_view root) {
  ARMATURE_ASSIGN_OR_RETURN(const std::vector<std::string> names, files.List(root));
  StepListing listing;
  // Sorted, so that a step comes before its ".old".
  for (const std::string& name : names) {
    absl::string_view base = name;
    const bool is_partial = absl::ConsumeSuffix(&base, kPartial);
    const bool is_old = !is_partial && absl::ConsumeSuffix(&base, kOld);
    const absl::optional<int64_t> step = ParseStepName(base);
    if (!step) continue;
    if (is_partial || (is_old && listing.complete.count(*step) > 0)) {
      listing.leftovers.push_back(name);
    } else {
      listing.complete[*step] = name;
    }
  }
  return listing;
}

absl::Status PublishStep(FileSystem& files, absl::string_view root, int64_t step) {
  const std::string partial = Join(root, PartialName(step)), target = Join(root, StepName(step));
  const std::string old = absl::StrCat(target, kOld);
  ARMATURE_RETURN_IF_ERROR(files.SyncDirectory(partial));
  ARMATURE_ASSIGN_OR_RETURN(const bool replaces, Exists(files, target));
  if (replaces) {
    ARMATURE_RETURN_IF_ERROR(files.RemoveTree(old));
    ARMATURE_RETURN_IF_ERROR(files.Rename(target, old));
  }
  ARMATURE_RETURN_IF_ERROR(files.Rename(partial, target));
  return files.SyncDirectory(root);
}

absl::Status RemoveStep(FileSystem& files, absl::string_view root, int64_t step, absl::string_view name) {
  const std::string partial = Join(root, PartialName(step));
  ARMATURE_RETURN_IF_ERROR(files.RemoveTree(partial));
  ARMATURE_RETURN_IF_ERROR(files.Rename(Join(root, name), partial));
  ARMATURE_RETURN_IF_ERROR(files.SyncDirectory(root));
  return files.RemoveTree(partial);
}

}  // namespace armature
