// FileSystemConformance: what every FileSystem promises, as a test suite. An implementation's test links it
// and adds
//
//   INSTANTIATE_TEST_SUITE_P(Memory, FileSystemConformance, ::testing::Values(&MakeMemoryFixture));
#ifndef ARMATURE_BASE_FILE_SYSTEM_CONFORMANCE_H_
#define ARMATURE_BASE_FILE_SYSTEM_CONFORMANCE_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "armature/base/file_system.h"
#include "gtest/gtest.h"

namespace armature {

// A file system under test. The destructor cleans up.
class FileSystemFixture {
 public:
  virtual ~FileSystemFixture() = default;
  virtual FileSystem& files() = 0;
  // An existing, empty directory.
  virtual std::string root() = 0;
};

using FileSystemFixtureFactory = std::unique_ptr<FileSystemFixture> (*)();

class FileSystemConformance : public ::testing::TestWithParam<FileSystemFixtureFactory> {
 protected:
  FileSystem& files() { return fixture_->files(); }
  std::string Path(absl::string_view name) const { return absl::StrCat(fixture_->root(), "/", name); }

  // Creates or replaces a file. Fails the test on an error.
  void Write(const std::string& path, absl::string_view bytes);

 private:
  const std::unique_ptr<FileSystemFixture> fixture_ = GetParam()();
};

}  // namespace armature

#endif  // ARMATURE_BASE_FILE_SYSTEM_CONFORMANCE_H_
