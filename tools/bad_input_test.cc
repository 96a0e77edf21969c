// What a person or a file can get wrong on the command line: each ends in one line that says what and where,
// with an exit code that is not 0, and leaves nothing half-written.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::SizeIs;

struct Outcome {
  int exit_code = -1;
  std::vector<std::string> errors;  // lines of stderr
};

class BadInput : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(testing::TempDir(), "bad_input_", getpid(), "_",
                              testing::UnitTest::GetInstance()->current_test_info()->name());
    mkdir(directory_.c_str(), 0755);
    std::string text;
    for (int i = 0; i < 200; ++i) absl::StrAppend(&text, "line ", i, " of the text\n");
    Write("text", text);
    ASSERT_EQ(Armature("prepare TMP/text --train=TMP/train --validation=TMP/validation").exit_code, 0);
    Write("config", R"(
      engine { threads: 1 learning_rate { peak: 0.01 } checkpoint { directory: "TMP/checkpoints" } }
      gpt2 { vocabulary: 256 max_positions: 16 hidden: 16 layers: 1 heads: 2 }
      data { train_path: "TMP/train" validation_path: "TMP/validation" batch_size: 2 }
      max_steps: 2
    )");
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << absl::StrReplaceAll(text, {{"TMP", directory_}});
  }
  std::string Read(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  bool Exists(const std::string& name) const {
    struct stat info;
    return stat(Path(name).c_str(), &info) == 0;
  }

  // Runs the program; TMP stands for the test's directory.
  Outcome Armature(const std::string& arguments) const {
    const std::string command = absl::StrReplaceAll(
        absl::StrCat("tools/armature ", arguments, " >TMP/stdout 2>TMP/stderr"), {{"TMP", directory_}});
    const int status = std::system(command.c_str());
    Outcome outcome;
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    for (absl::string_view line : absl::StrSplit(Read("stderr"), '\n', absl::SkipEmpty())) {
      outcome.errors.emplace_back(line);
    }
    return outcome;
  }
  void ExpectOneLine(const Outcome& outcome, const ::testing::Matcher<std::string>& line) const {
    EXPECT_EQ(outcome.exit_code, 1);
    ASSERT_THAT(outcome.errors, SizeIs(1)) << absl::StrReplaceAll(Read("stderr"), {{directory_, "TMP"}});
    EXPECT_THAT(outcome.errors[0], line);
  }

  std::string directory_;
};

TEST_F(BadInput, NothingIsWrong) {
  EXPECT_EQ(Armature("train --config=TMP/config").exit_code, 0) << Read("stderr");
  EXPECT_THAT(Read("stdout"), AllOf(HasSubstr("validation loss"), HasSubstr("resume with: armature train")));
  EXPECT_EQ(Armature("sample --config=TMP/config --length=5").exit_code, 0) << Read("stderr");
  EXPECT_EQ(Armature("train --config=TMP/config --set max_steps=3").exit_code, 0) << Read("stderr");
  EXPECT_THAT(Read("stdout"), HasSubstr("resumed from step 2"));
}

TEST_F(BadInput, AMissingTokenFile) {
  ExpectOneLine(Armature("train --config=TMP/config --set data.train_path=TMP/nowhere"),
                AllOf(HasSubstr("armature train: "), HasSubstr("nowhere")));
}

TEST_F(BadInput, ATornTokenFile) {
  const std::string whole = Read("train");
  Write("train", whole.substr(0, whole.size() - 7));
  ExpectOneLine(Armature("train --config=TMP/config"), HasSubstr(Path("train")));
  std::string flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  Write("train", flipped);
  ExpectOneLine(Armature("train --config=TMP/config"), HasSubstr(Path("train")));
  EXPECT_FALSE(Exists("checkpoints"));
}

TEST_F(BadInput, AnUnknownFieldHasItsPlace) {
  Write("config", "engine {\n  learning_rat { peak: 1 }\n}\n");
  ExpectOneLine(Armature("train --config=TMP/config"),
                AllOf(HasSubstr("config:2:"), HasSubstr("learning_rat")));
  Write("config", "gpt2 { layers: \"two\" }");
  ExpectOneLine(Armature("train --config=TMP/config"), HasSubstr("config:1:"));
}

TEST_F(BadInput, AnUnknownPathOfSetListsTheFields) {
  ExpectOneLine(Armature("train --config=TMP/config --set engine.learning_rate.peek=1"),
                AllOf(HasSubstr("peek"), HasSubstr("peak")));
  ExpectOneLine(Armature("train --config=TMP/config --set engine.threads=two"),
                HasSubstr("engine.threads=two"));
  ExpectOneLine(Armature("train --config=TMP/config --set engine=1"), HasSubstr("fields of its own"));
  ExpectOneLine(Armature("train --config=TMP/config --set max_steps"), HasSubstr("path.to.field=value"));
}

TEST_F(BadInput, AVocabularySmallerThanAToken) {
  ExpectOneLine(Armature("train --config=TMP/config --set gpt2.vocabulary=100"),
                AllOf(HasSubstr("gpt2.vocabulary is only 100"), HasSubstr("255")));
}

TEST_F(BadInput, AFieldOutOfRange) {
  ExpectOneLine(Armature("train --config=TMP/config --set gpt2.heads=3"), HasSubstr("heads"));
  ExpectOneLine(Armature("train --config=TMP/config --set engine.learning_rate.peak=-1"),
                HasSubstr("learning_rate"));
  ExpectOneLine(Armature("train --config=TMP/config --set data.batch_size=0"), HasSubstr("data.batch_size"));
  ExpectOneLine(Armature("train --config=TMP/config --set data.sequence_length=17"),
                HasSubstr("max_positions 16"));
  ExpectOneLine(Armature("train --config=TMP/config --set engine.parallel.tensor=3"),
                HasSubstr("not divisible by the tensor size 3"));
}

TEST_F(BadInput, ACheckpointOfAnotherModel) {
  ASSERT_EQ(Armature("train --config=TMP/config").exit_code, 0);
  ExpectOneLine(Armature("train --config=TMP/config --set gpt2.hidden=32"), HasSubstr("gpt2"));
  EXPECT_EQ(Armature("train --config=TMP/config --set max_steps=3").exit_code, 0);  // and the old one is fine
  ExpectOneLine(Armature("train --config=TMP/config --fresh"), HasSubstr("--fresh"));
}

TEST_F(BadInput, SamplingWithoutACheckpoint) {
  ExpectOneLine(Armature("sample --config=TMP/config"), HasSubstr("checkpoints"));
  EXPECT_FALSE(Exists("checkpoints"));
}

TEST_F(BadInput, AFullDisk) {
  ExpectOneLine(Armature("train --config=TMP/config --set metrics_path=/dev/full"), HasSubstr("/dev/full"));
  mkdir(Path("small").c_str(), 0755);
  if (mount("tmpfs", Path("small").c_str(), "tmpfs", 0, "size=64k") != 0) {
    GTEST_SKIP() << "a small file system can't be mounted here";
  }
  ExpectOneLine(Armature("train --config=TMP/config --set engine.checkpoint.directory=TMP/small/c"),
                HasSubstr("small/c"));
  ExpectOneLine(Armature("prepare TMP/text TMP/text TMP/text TMP/text TMP/text TMP/text TMP/text TMP/text "
                         "--train=TMP/small/train"),
                HasSubstr("small/train"));
  EXPECT_FALSE(Exists("small/train"));
  umount(Path("small").c_str());
}

TEST_F(BadInput, AReadOnlyDirectory) {
  mkdir(Path("fixed").c_str(), 0755);
  const bool mounted = mount("tmpfs", Path("fixed").c_str(), "tmpfs", MS_RDONLY, "size=64k") == 0;
  if (!mounted && geteuid() == 0)
    GTEST_SKIP() << "root writes anywhere, and a read-only file system can't be mounted";
  if (!mounted) chmod(Path("fixed").c_str(), 0555);
  ExpectOneLine(Armature("train --config=TMP/config --set engine.checkpoint.directory=TMP/fixed/c"),
                HasSubstr("fixed/c"));
  ExpectOneLine(Armature("prepare TMP/text --train=TMP/fixed/train"), HasSubstr("fixed/train"));
  if (mounted) umount(Path("fixed").c_str());
}

TEST_F(BadInput, UsageErrorsHaveTheirOwnCode) {
  EXPECT_EQ(Armature("").exit_code, 2);
  EXPECT_EQ(Armature("fly").exit_code, 2);
  EXPECT_EQ(Armature("train").exit_code, 2);
  EXPECT_EQ(Armature("train --config=TMP/config --unknown").exit_code, 2);
  EXPECT_EQ(Armature("--help").exit_code, 0);
}

TEST_F(BadInput, BenchRefusesWhatIsNotThere) {
  ExpectOneLine(Armature("bench train --preset=gpt5"), HasSubstr("gpt5"));
  ExpectOneLine(Armature("bench train --preset=gpt2-tiny --seq=5000"), HasSubstr("--seq"));
}

}  // namespace
}  // namespace armature
