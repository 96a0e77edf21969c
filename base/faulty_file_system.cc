#include "armature/base/faulty_file_system.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"

namespace armature {
namespace {

class FlippedFile final : public MappedFile {
 public:
  explicit FlippedFile(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::string_view bytes() const override { return bytes_; }

 private:
  const std::string bytes_;
};

}  // namespace

class FaultyFileSystem::File final : public WritableFile {
 public:
  File(FaultyFileSystem& files, std::string path, std::unique_ptr<WritableFile> base)
      : files_(files), path_(std::move(path)), base_(std::move(base)) {}

  absl::Status Append(absl::string_view bytes) override {
    const Verdict verdict = files_.Mutate("append to", path_, static_cast<int64_t>(bytes.size()));
    if (verdict.status.ok() || verdict.landed_bytes > 0) {
      ARMATURE_RETURN_IF_ERROR(base_->Append(bytes.substr(0, verdict.landed_bytes)));
    }
    return verdict.status;
  }

  absl::Status Sync() override {
    ARMATURE_RETURN_IF_ERROR(files_.Mutate("sync", path_));
    return base_->Sync();
  }

  absl::Status Close() override {
    ARMATURE_RETURN_IF_ERROR(files_.Mutate("close", path_));
    return base_->Close();
  }

 private:
  FaultyFileSystem& files_;
  const std::string path_;
  const std::unique_ptr<WritableFile> base_;
};

FaultyFileSystem::FaultyFileSystem(FileSystem& base, FaultPlan plan) : base_(base), plan_(std::move(plan)) {}

void FaultyFileSystem::SetPlan(FaultPlan plan) {
  std::lock_guard<std::mutex> lock(mutex_);
  plan_ = std::move(plan);
  mutations_ = 0;
}

int64_t FaultyFileSystem::mutations() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return mutations_;
}

bool FaultyFileSystem::fault_happened() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return plan_.fail_at >= 0 && mutations_ > plan_.fail_at;
}

absl::Status FaultyFileSystem::CheckAlive(absl::string_view path) const {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool happened = plan_.fail_at >= 0 && mutations_ > plan_.fail_at;
  if (!plan_.crash || !happened) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot access ", path, " after the injected crash"));
}

FaultyFileSystem::Verdict FaultyFileSystem::Mutate(absl::string_view operation, absl::string_view path,
                                                   int64_t size_bytes) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t number = mutations_++;
  const auto describe = [&](absl::string_view why) {
    return absl::StrCat("cannot ", operation, " ", path, ": ", why);
  };
  Verdict verdict;
  if (plan_.crash && plan_.fail_at >= 0 && number > plan_.fail_at) {
    verdict.status = absl::UnavailableError(describe("after the injected crash"));
  } else if (plan_.read_only) {
    verdict.status = absl::FailedPreconditionError(describe("read-only file system"));
  } else {
    verdict.landed_bytes = std::min(size_bytes, plan_.free_bytes);
    if (number == plan_.fail_at) {
      verdict.landed_bytes = std::min(verdict.landed_bytes, plan_.torn_bytes);
      verdict.status = absl::Status(plan_.error.code(), describe(plan_.error.message()));
    } else if (verdict.landed_bytes < size_bytes) {
      verdict.status = absl::ResourceExhaustedError(describe("no space left on device"));
    }
    plan_.free_bytes -= verdict.landed_bytes;
  }
  return verdict;
}

absl::Status FaultyFileSystem::Mutate(absl::string_view operation, absl::string_view path) {
  return Mutate(operation, path, 0).status;
}

std::string FaultyFileSystem::WithFlips(absl::string_view path, std::string bytes) const {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const BitFlip& flip : plan_.bit_flips) {
    if (flip.path == path && flip.offset_bytes < static_cast<int64_t>(bytes.size())) {
      bytes[flip.offset_bytes] = static_cast<char>(bytes[flip.offset_bytes] ^ (1 << flip.bit));
    }
  }
  return bytes;
}

absl::StatusOr<std::string> FaultyFileSystem::Read(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(CheckAlive(path));
  ARMATURE_ASSIGN_OR_RETURN(std::string bytes, base_.Read(path));
  return WithFlips(path, std::move(bytes));
}

absl::StatusOr<std::unique_ptr<MappedFile>> FaultyFileSystem::Map(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(CheckAlive(path));
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<MappedFile> mapped, base_.Map(path));
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (plan_.bit_flips.empty()) return mapped;
  }
  return std::make_unique<FlippedFile>(WithFlips(path, std::string(mapped->bytes())));
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Create(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(Mutate("create", path));
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.Create(path));
  return std::make_unique<File>(*this, std::string(path), std::move(file));
}

absl::StatusOr<std::unique_ptr<WritableFile>> FaultyFileSystem::Append(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(Mutate("open", path));
  ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, base_.Append(path));
  return std::make_unique<File>(*this, std::string(path), std::move(file));
}

absl::StatusOr<FileInfo> FaultyFileSystem::Stat(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(CheckAlive(path));
  return base_.Stat(path);
}

absl::StatusOr<std::vector<std::string>> FaultyFileSystem::List(absl::string_view directory) {
  ARMATURE_RETURN_IF_ERROR(CheckAlive(directory));
  return base_.List(directory);
}

absl::Status FaultyFileSystem::MakeDirectories(absl::string_view directory) {
  ARMATURE_RETURN_IF_ERROR(Mutate("make directory", directory));
  return base_.MakeDirectories(directory);
}

absl::Status FaultyFileSystem::Rename(absl::string_view from, absl::string_view to) {
  ARMATURE_RETURN_IF_ERROR(Mutate("rename", from));
  return base_.Rename(from, to);
}

absl::Status FaultyFileSystem::Remove(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(Mutate("remove", path));
  return base_.Remove(path);
}

absl::Status FaultyFileSystem::RemoveTree(absl::string_view directory) {
  ARMATURE_RETURN_IF_ERROR(Mutate("remove", directory));
  return base_.RemoveTree(directory);
}

absl::Status FaultyFileSystem::SyncDirectory(absl::string_view directory) {
  ARMATURE_RETURN_IF_ERROR(Mutate("sync", directory));
  return base_.SyncDirectory(directory);
}

absl::StatusOr<std::unique_ptr<FileLock>> FaultyFileSystem::Lock(absl::string_view path) {
  ARMATURE_RETURN_IF_ERROR(Mutate("lock", path));
  return base_.Lock(path);
}

}  // namespace armature
