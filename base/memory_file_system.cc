#include "armature/base/memory_file_system.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "armature/base/status_macros.h"

namespace armature {

// A file or a directory: what it is now, and what of it would survive a crash.
struct MemoryFileSystem::Node {
  using Entries = std::map<std::string, std::shared_ptr<Node>>;

  bool is_directory = false;
  bool locked = false;
  std::string bytes;
  std::string synced_bytes;
  Entries entries;
  Entries synced_entries;
};

// Where a path leads: its directory, which exists, and a name in it, which need not.
struct MemoryFileSystem::Place {
  std::shared_ptr<Node> directory;
  std::string name;

  std::shared_ptr<Node> node() const {
    const auto found = directory->entries.find(name);
    return found == directory->entries.end() ? nullptr : found->second;
  }
};

namespace {

std::vector<std::string> Components(absl::string_view path) {
  std::vector<std::string> result;
  for (absl::string_view component : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (component == ".") continue;
    if (component != "..") {
      result.emplace_back(component);
    } else if (!result.empty()) {
      result.pop_back();
    }
  }
  return result;
}

absl::Status NoSuch(absl::string_view path) {
  return absl::NotFoundError(absl::StrCat(path, ": no such file or directory"));
}

absl::Status IsADirectory(absl::string_view path) {
  return absl::UnavailableError(absl::StrCat(path, " is a directory"));
}

class MemoryMappedFile final : public MappedFile {
 public:
  explicit MemoryMappedFile(std::string bytes) : bytes_(std::move(bytes)) {}
  absl::string_view bytes() const override { return bytes_; }

 private:
  const std::string bytes_;
};

}  // namespace

class MemoryFileSystem::OpenFile final : public WritableFile {
 public:
  OpenFile(MemoryFileSystem& files, std::string path, std::shared_ptr<Node> node)
      : files_(files), path_(std::move(path)), node_(std::move(node)), crashes_(files.crashes_) {}

  absl::Status Append(absl::string_view bytes) override {
    std::lock_guard<std::mutex> lock(files_.mutex_);
    ARMATURE_RETURN_IF_ERROR(CheckOpen());
    node_->bytes.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    std::lock_guard<std::mutex> lock(files_.mutex_);
    ARMATURE_RETURN_IF_ERROR(CheckOpen());
    node_->synced_bytes = node_->bytes;
    return absl::OkStatus();
  }

  absl::Status Close() override {
    std::lock_guard<std::mutex> lock(files_.mutex_);
    ARMATURE_RETURN_IF_ERROR(CheckOpen());
    closed_ = true;
    return absl::OkStatus();
  }

 private:
  absl::Status CheckOpen() const {
    if (closed_) return absl::FailedPreconditionError(absl::StrCat(path_, " is closed"));
    if (crashes_ != files_.crashes_) {
      return absl::UnavailableError(absl::StrCat(path_, " was open when the file system crashed"));
    }
    return absl::OkStatus();
  }

  MemoryFileSystem& files_;
  const std::string path_;
  const std::shared_ptr<Node> node_;
  const int64_t crashes_;
  bool closed_ = false;
};

class MemoryFileSystem::HeldLock final : public FileLock {
 public:
  HeldLock(MemoryFileSystem& files, std::shared_ptr<Node> node)
      : files_(files), node_(std::move(node)), crashes_(files.crashes_) {}
  ~HeldLock() override {
    std::lock_guard<std::mutex> lock(files_.mutex_);
    if (crashes_ == files_.crashes_) node_->locked = false;
  }

 private:
  MemoryFileSystem& files_;
  const std::shared_ptr<Node> node_;
  const int64_t crashes_;
};

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->is_directory = true; }

MemoryFileSystem::~MemoryFileSystem() = default;

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>> MemoryFileSystem::Find(absl::string_view path) const {
  std::shared_ptr<Node> node = root_;
  for (const std::string& component : Components(path)) {
    const auto found = node->entries.find(component);
    if (found == node->entries.end()) return NoSuch(path);
    node = found->second;
  }
  return node;
}

absl::StatusOr<MemoryFileSystem::Place> MemoryFileSystem::FindPlace(absl::string_view path) const {
  const std::vector<std::string> components = Components(path);
  if (components.empty()) return IsADirectory(path);
  Place place{root_, components.back()};
  for (size_t i = 0; i + 1 < components.size(); ++i) {
    const auto found = place.directory->entries.find(components[i]);
    if (found == place.directory->entries.end()) return NoSuch(path);
    place.directory = found->second;
  }
  if (!place.directory->is_directory) return NoSuch(path);
  return place;
}

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>> MemoryFileSystem::FindFile(
    absl::string_view path) const {
  ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, Find(path));
  if (node->is_directory) return IsADirectory(path);
  return node;
}

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>> MemoryFileSystem::FindDirectory(
    absl::string_view path) const {
  ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, Find(path));
  if (!node->is_directory) return absl::NotFoundError(absl::StrCat(path, " is not a directory"));
  return node;
}

absl::StatusOr<std::shared_ptr<MemoryFileSystem::Node>> MemoryFileSystem::FindOrMakeFile(
    absl::string_view path) {
  ARMATURE_ASSIGN_OR_RETURN(const Place place, FindPlace(path));
  std::shared_ptr<Node>& node = place.directory->entries[place.name];
  if (node == nullptr) node = std::make_shared<Node>();
  if (node->is_directory) return IsADirectory(path);
  return node;
}

absl::StatusOr<std::string> MemoryFileSystem::Read(absl::string_view path) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, FindFile(path));
  return node->bytes;
}

absl::StatusOr<std::unique_ptr<MappedFile>> MemoryFileSystem::Map(absl::string_view path) {
  ARMATURE_ASSIGN_OR_RETURN(std::string bytes, Read(path));
  return std::make_unique<MemoryMappedFile>(std::move(bytes));
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Open(absl::string_view path, bool truncate) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, FindOrMakeFile(path));
  if (truncate) node->bytes.clear();
  return std::make_unique<OpenFile>(*this, std::string(path), std::move(node));
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Create(absl::string_view path) {
  return Open(path, /*truncate=*/true);
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Append(absl::string_view path) {
  return Open(path, /*truncate=*/false);
}

absl::StatusOr<FileInfo> MemoryFileSystem::Stat(absl::string_view path) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, Find(path));
  return FileInfo{static_cast<int64_t>(node->bytes.size()), node->is_directory};
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(absl::string_view directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, FindDirectory(directory));
  std::vector<std::string> names;
  for (const auto& entry : node->entries) names.push_back(entry.first);
  return names;
}

absl::Status MemoryFileSystem::MakeDirectories(absl::string_view directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<Node> node = root_;
  for (const std::string& component : Components(directory)) {
    std::shared_ptr<Node>& child = node->entries[component];
    if (child == nullptr) {
      child = std::make_shared<Node>();
      child->is_directory = true;
    }
    if (!child->is_directory)
      return absl::NotFoundError(absl::StrCat(directory, ": ", component, " is a file"));
    node = child;
  }
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Rename(absl::string_view from, absl::string_view to) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(const Place source, FindPlace(from));
  ARMATURE_ASSIGN_OR_RETURN(const Place target, FindPlace(to));
  const std::shared_ptr<Node> moved = source.node();
  if (moved == nullptr) return NoSuch(from);
  const std::shared_ptr<Node> replaced = target.node();
  if (replaced == moved) return absl::OkStatus();
  if (replaced != nullptr) {
    if (replaced->is_directory != moved->is_directory) {
      return absl::UnavailableError(
          absl::StrCat("cannot rename ", from, " to ", to, ": one is a file and one a directory"));
    }
    if (!replaced->entries.empty()) {
      return absl::UnavailableError(
          absl::StrCat("cannot rename ", from, " to ", to, ": directory not empty"));
    }
  }
  const std::vector<std::string> from_path = Components(from);
  const std::vector<std::string> to_path = Components(to);
  if (to_path.size() > from_path.size() && std::equal(from_path.begin(), from_path.end(), to_path.begin())) {
    return absl::UnavailableError(absl::StrCat("cannot rename ", from, " into itself, to ", to));
  }
  target.directory->entries[target.name] = moved;
  source.directory->entries.erase(source.name);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::Remove(absl::string_view path) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(const Place place, FindPlace(path));
  const std::shared_ptr<Node> node = place.node();
  if (node == nullptr) return NoSuch(path);
  if (node->is_directory) return IsADirectory(path);
  place.directory->entries.erase(place.name);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::RemoveTree(absl::string_view directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  const absl::StatusOr<Place> place = FindPlace(directory);
  if (absl::IsNotFound(place.status())) return absl::OkStatus();
  ARMATURE_RETURN_IF_ERROR(place.status());
  place->directory->entries.erase(place->name);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::SyncDirectory(absl::string_view directory) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, FindDirectory(directory));
  node->synced_entries = node->entries;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<FileLock>> MemoryFileSystem::Lock(absl::string_view path) {
  std::lock_guard<std::mutex> lock(mutex_);
  ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Node> node, FindOrMakeFile(path));
  if (node->locked) return absl::FailedPreconditionError(absl::StrCat(path, " is locked by another holder"));
  node->locked = true;
  return std::make_unique<HeldLock>(*this, std::move(node));
}

void MemoryFileSystem::Crash(CrashKeeps keeps) {
  std::lock_guard<std::mutex> lock(mutex_);
  ++crashes_;
  std::vector<std::shared_ptr<Node>> left = {root_};
  std::set<Node*> seen;  // after a crash one file can stand in two directories
  while (!left.empty()) {
    const std::shared_ptr<Node> node = std::move(left.back());
    left.pop_back();
    if (!seen.insert(node.get()).second) continue;
    node->locked = false;
    if (keeps != CrashKeeps::kEverything) node->bytes = node->synced_bytes;
    if (keeps == CrashKeeps::kSyncedOnly) node->entries = node->synced_entries;
    if (keeps == CrashKeeps::kUnsyncedEntries) node->synced_entries = node->entries;
    for (const auto& entry : node->entries) left.push_back(entry.second);
  }
}

}  // namespace armature
