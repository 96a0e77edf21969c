#include "armature/tools/launch/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_matchers.h"
#include "armature/tools/launch/line_prefixer.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace launch {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ran {
  LaunchResult result;
  std::string output;
};

// Runs a shell script on each rank.
absl::StatusOr<Ran> RunScript(const std::string& script, LaunchOptions options) {
  const std::string path =
      absl::StrCat(::testing::TempDir(), "/output.", getpid(), ".", absl::ToUnixNanos(absl::Now()));
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  options.command = {"sh", "-c", script};
  options.output_fd = options.error_fd = fd;
  absl::StatusOr<LaunchResult> result = Launch(options);
  close(fd);
  if (!result.ok()) return result.status();
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return Ran{*result, text.str()};
}

LaunchOptions Processes(int count) {
  LaunchOptions options;
  options.processes = count;
  options.grace = absl::Milliseconds(200);
  return options;
}

TEST(Launch, GivesEachProcessItsPlaceAndPrefixesItsLines) {
  ASSERT_OK_AND_ASSIGN(Ran ran,
                       RunScript("echo $RANK of $WORLD_SIZE local $LOCAL_RANK at $MASTER_ADDR; echo bad >&2; "
                                 "test $MASTER_PORT -gt 0; printf unended",
                                 Processes(3)));
  EXPECT_EQ(ran.result.exit_code, 0);
  EXPECT_EQ(ran.result.failed_rank, -1);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(ran.output,
                AllOf(HasSubstr(absl::StrCat("[", rank, "] ", rank, " of 3 local ", rank, " at 127.0.0.1\n")),
                      HasSubstr(absl::StrCat("[", rank, "] bad\n")),
                      HasSubstr(absl::StrCat("[", rank, "] unended\n"))));
  }
}

TEST(Launch, ItsProcessesFormAGroup) {
  ASSERT_OK_AND_ASSIGN(Ran ran, RunScript("exec comm/process_worker", Processes(4)));
  EXPECT_EQ(ran.result.exit_code, 0) << ran.output;
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_THAT(ran.output, HasSubstr(absl::StrCat("[", rank, "] rank ", rank, " of 4 under torchrun: ok")));
  }
}

TEST(Launch, ReportsTheFirstThatFailsAndEndsTheOthers) {
  const absl::Time start = absl::Now();
  ASSERT_OK_AND_ASSIGN(Ran ran, RunScript("test $RANK = 1 && exit 7; exec sleep 60", Processes(3)));
  EXPECT_EQ(ran.result.exit_code, 7);
  EXPECT_EQ(ran.result.failed_rank, 1);
  EXPECT_EQ(ran.result.why, "rank 1 exited with code 7");
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

TEST(Launch, KillsThoseThatDontEndOrAreStopped) {
  const absl::Time start = absl::Now();
  ASSERT_OK_AND_ASSIGN(
      Ran ran,
      RunScript(
          "if test $RANK = 0; then sleep 0.3; kill -9 $$; fi; if test $RANK = 1; then kill -STOP $$; fi; "
          "trap '' TERM; sleep 60; sleep 60",
          Processes(3)));
  EXPECT_EQ(ran.result.exit_code, 128 + 9);
  EXPECT_THAT(ran.result.why, HasSubstr("rank 0 was killed by signal 9"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
}

TEST(Launch, PassesSignalsOn) {
  std::thread sender([launcher = pthread_self()] {
    absl::SleepFor(absl::Milliseconds(300));
    pthread_kill(launcher, SIGUSR1);
  });
  ASSERT_OK_AND_ASSIGN(
      Ran ran, RunScript("trap 'echo got it; exit 0' USR1; while :; do sleep 0.05; done", Processes(2)));
  sender.join();
  EXPECT_EQ(ran.result.exit_code, 0);
  EXPECT_THAT(ran.output, AllOf(HasSubstr("[0] got it"), HasSubstr("[1] got it")));
}

TEST(Launch, PassesBytesOnUnchangedIfAsked) {
  LaunchOptions options = Processes(1);
  options.prefix_output = false;
  ASSERT_OK_AND_ASSIGN(Ran ran, RunScript("printf 'a\\nb'", options));
  EXPECT_EQ(ran.output, "a\nb");
}

TEST(Launch, NamesAProgramThatIsNotThere) {
  LaunchOptions options = Processes(2);
  options.command = {"/no/such/program"};
  EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/no/such/program")));
  options.command = {};
  EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kInvalidArgument));
  options = Processes(0);
  options.command = {"true"};
  EXPECT_THAT(Launch(options), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(LinePrefixer, PrefixesLinesThatComeInPieces) {
  LinePrefixer prefixer("[1] ");
  EXPECT_EQ(prefixer.Add("one\ntw"), "[1] one\n");
  EXPECT_EQ(prefixer.Add("o\n\nth"), "[1] two\n[1] \n");
  EXPECT_EQ(prefixer.Finish(), "[1] th\n");
  EXPECT_EQ(prefixer.Finish(), "");
}

}  // namespace
}  // namespace launch
}  // namespace armature
