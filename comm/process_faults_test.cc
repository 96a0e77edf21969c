// Real processes that are killed or stopped: those who remain learn of it in time, by name, and don't spin
// meanwhile.

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/file_store.h"
#include "armature/comm/process_group.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::HasSubstr;

constexpr int kRanks = 4;
constexpr int kVictim = 1;
constexpr absl::Duration kTimeout = absl::Seconds(2);

// What a process leaves for the test, in memory that they share.
struct Report {
  std::atomic<int> stage{0};  // 1: in the group; 2: done
  int code = 0;
  char message[400] = {};
  double seconds = 0;      // in the call that failed
  double cpu_seconds = 0;  // used meanwhile
};

double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
         1e-6 * (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

absl::Status Sum(Communicator& comm, std::vector<float>& data) {
  return comm
      .AllReduce({data.data(), static_cast<int64_t>(data.size()), DType::kF32, Device()}, ReduceOp::kSum)
      .Wait();
}

class ProcessFaults : public ::testing::TestWithParam<Transport> {
 protected:
  ProcessFaults() {
    void* const memory =
        mmap(nullptr, kRanks * sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    reports_ = static_cast<Report*>(memory);
    Reset();
  }

  ~ProcessFaults() override {
    EndAll();
    munmap(reports_, kRanks * sizeof(Report));
  }

  // Fresh reports, and a fresh place to meet.
  void Reset() {
    EndAll();
    for (int rank = 0; rank < kRanks; ++rank) new (&reports_[rank]) Report;
    folder_ = absl::StrCat(::testing::TempDir(), "/faults.XXXXXX");
    EXPECT_NE(mkdtemp(&folder_[0]), nullptr);
  }

  // Each process joins the group and runs `body`.
  void Start(const std::function<absl::Status(Communicator& comm)>& body,
             absl::Duration timeout = absl::Seconds(20)) {
    timeout_ = timeout;
    for (int rank = 0; rank < kRanks; ++rank) {
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        RunRank(rank, body);
        _exit(0);
      }
      pids_.push_back(pid);
    }
  }

  void AwaitStage(int stage, bool victim_too) {
    const absl::Time limit = absl::Now() + absl::Seconds(30);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim && !victim_too) continue;
      while (reports_[rank].stage.load() < stage) {
        ASSERT_LT(absl::Now(), limit) << "rank " << rank;
        siginfo_t end = {};
        const bool ended =
            waitid(P_PID, pids_[rank], &end, WEXITED | WNOHANG | WNOWAIT) == 0 && end.si_pid != 0;
        ASSERT_TRUE(!ended || reports_[rank].stage.load() >= stage)
            << "rank " << rank << " ended with code or signal " << end.si_status;
        absl::SleepFor(absl::Milliseconds(1));
      }
    }
  }

  void ExpectSurvivorsFail(absl::StatusCode code, absl::Duration within) {
    AwaitStage(2, /*victim_too=*/false);
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == kVictim) continue;
      const Report& report = reports_[rank];
      const absl::Status status(static_cast<absl::StatusCode>(report.code), report.message);
      EXPECT_THAT(status, StatusIs(code, HasSubstr("rank 1"))) << "on rank " << rank;
      EXPECT_LT(report.seconds, absl::ToDoubleSeconds(within)) << "on rank " << rank;
      EXPECT_LT(report.cpu_seconds, 0.2 + 0.3 * report.seconds) << "on rank " << rank;
    }
  }

  pid_t victim() const { return pids_[kVictim]; }

 private:
  void EndAll() {
    for (pid_t pid : pids_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    pids_.clear();
  }

  void RunRank(int rank, const std::function<absl::Status(Communicator& comm)>& body) {
    Report& report = reports_[rank];
    const absl::Status status = [&]() -> absl::Status {
      ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<Store> store, OpenFileStore(folder_));
      ProcessGroupOptions options;
      options.group.timeout = timeout_;
      options.transport = GetParam();
      ARMATURE_ASSIGN_OR_RETURN(std::unique_ptr<Communicator> comm,
                                ConnectProcesses(store, rank, kRanks, options));
      report.stage.store(1);
      return body(*comm);
    }();
    report.code = static_cast<int>(status.code());
    std::strncpy(report.message, std::string(status.message()).c_str(), sizeof(report.message) - 1);
    report.stage.store(2);
  }

 protected:
  // Sums until it fails; the report has the time of the last call.
  absl::Status SumUntilFailure(Communicator& comm, int64_t count, absl::Duration timeout,
                               absl::Duration pause) {
    Report& report = reports_[comm.rank()];
    std::vector<float> data(count);
    for (;;) {
      const absl::Time start = absl::Now();
      const double cpu = CpuSeconds();
      absl::Status status =
          comm.AllReduce({data.data(), count, DType::kF32, Device()}, ReduceOp::kSum).Wait(start + timeout);
      report.seconds = absl::ToDoubleSeconds(absl::Now() - start);
      report.cpu_seconds = CpuSeconds() - cpu;
      if (!status.ok()) return status;
      absl::SleepFor(pause);
    }
  }

  Report* reports_;

 private:
  std::string folder_;
  absl::Duration timeout_;
  std::vector<pid_t> pids_;
};

TEST_P(ProcessFaults, KilledBeforeItsFirstCollective) {
  Start([this](Communicator& comm) {
    if (comm.rank() == kVictim) raise(SIGKILL);
    return SumUntilFailure(comm, 1000, kTimeout, absl::ZeroDuration());
  });
  ExpectSurvivorsFail(absl::StatusCode::kUnavailable, absl::Seconds(1));
}

// At whatever moment of the meeting it dies: the others get an error and none of them dies with it.
TEST_P(ProcessFaults, KilledWhileTheGroupForms) {
  for (int delay_ms : {1, 3, 6, 10, 15, 25}) {
    SCOPED_TRACE(delay_ms);
    Reset();
    Start([this](Communicator& comm) { return SumUntilFailure(comm, 1000, kTimeout, absl::ZeroDuration()); },
          /*timeout=*/absl::Seconds(1));
    absl::SleepFor(absl::Milliseconds(delay_ms));
    kill(victim(), SIGKILL);
    AwaitStage(2, /*victim_too=*/false);
    for (int rank = 0; rank < kRanks; ++rank) {
      EXPECT_TRUE(rank == kVictim || reports_[rank].code != 0) << "on rank " << rank;
    }
  }
}

TEST_P(ProcessFaults, KilledInTheMiddleOfCollectives) {
  Start(
      [this](Communicator& comm) { return SumUntilFailure(comm, 3000000, kTimeout, absl::ZeroDuration()); });
  AwaitStage(1, /*victim_too=*/true);
  absl::SleepFor(absl::Milliseconds(100));
  kill(victim(), SIGKILL);
  ExpectSurvivorsFail(absl::StatusCode::kUnavailable, absl::Seconds(3));
}

TEST_P(ProcessFaults, KilledWhileAllAreIdle) {
  Start([this](Communicator& comm) {
    std::vector<float> data(1000);
    ARMATURE_RETURN_IF_ERROR(Sum(comm, data));
    absl::SleepFor(absl::Milliseconds(400));
    return SumUntilFailure(comm, 1000, kTimeout, absl::ZeroDuration());
  });
  AwaitStage(1, /*victim_too=*/true);
  absl::SleepFor(absl::Milliseconds(150));
  kill(victim(), SIGKILL);
  ExpectSurvivorsFail(absl::StatusCode::kUnavailable, absl::Seconds(1));
}

TEST_P(ProcessFaults, AStoppedProcessEndsInDeadlineExceeded) {
  Start([this](Communicator& comm) {
    return SumUntilFailure(comm, 1000, absl::Milliseconds(600), absl::Milliseconds(5));
  });
  AwaitStage(1, /*victim_too=*/true);
  absl::SleepFor(absl::Milliseconds(50));
  kill(victim(), SIGSTOP);
  ExpectSurvivorsFail(absl::StatusCode::kDeadlineExceeded, absl::Milliseconds(1600));
}

INSTANTIATE_TEST_SUITE_P(Transports, ProcessFaults,
                         ::testing::Values(Transport::kSharedMemory, Transport::kTcp), [](const auto& info) {
                           return info.param == Transport::kTcp ? "Tcp" : "SharedMemory";
                         });

}  // namespace
}  // namespace comm
}  // namespace armature
