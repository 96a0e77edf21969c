#include "armature/tools/launch/launcher.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/socket.h"
#include "armature/tools/launch/line_prefixer.h"

extern char** environ;

namespace armature {
namespace launch {
namespace {

constexpr int kForwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

absl::Status SystemError(absl::string_view doing) {
  return absl::UnavailableError(absl::StrCat("launch: ", doing, ": ", std::strerror(errno)));
}

// The signals of this thread that come through a descriptor while it lives.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int signal : kForwarded) sigaddset(&set, signal);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Signals() {
    if (fd_ >= 0) close(fd_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  int fd() const { return fd_; }
  const sigset_t& before() const { return before_; }

  // 0 if none is left.
  int Next() const {
    signalfd_siginfo info;
    return read(fd_, &info, sizeof(info)) == sizeof(info) ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  int fd_ = -1;
  sigset_t before_;
};

// A stream of a process's output.
struct Output {
  int fd = -1;
  int to = -1;
  LinePrefixer prefixer;
};

struct Process {
  pid_t pid = -1;
  bool running = false;
};

// Arguments or variables as exec wants them, made before the fork.
class StringTable {
 public:
  explicit StringTable(std::vector<std::string> strings) : strings_(std::move(strings)) {
    for (std::string& text : strings_) pointers_.push_back(&text[0]);
    pointers_.push_back(nullptr);
  }
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> strings_;
  std::vector<char*> pointers_;
};

std::vector<std::string> EnvironmentOf(const LaunchOptions& options, int rank, int port) {
  const std::vector<std::string> added = {absl::StrCat("RANK=", rank),
                                          absl::StrCat("WORLD_SIZE=", options.processes),
                                          absl::StrCat("LOCAL_RANK=", rank),
                                          absl::StrCat("LOCAL_WORLD_SIZE=", options.processes),
                                          absl::StrCat("MASTER_ADDR=", options.master_address),
                                          absl::StrCat("MASTER_PORT=", port)};
  std::vector<std::string> all = added;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const bool replaced = std::any_of(added.begin(), added.end(), [&](const std::string& text) {
      return absl::StartsWith(*entry, text.substr(0, text.find('=') + 1));
    });
    if (!replaced) all.push_back(*entry);
  }
  return all;
}

// Returns in the parent only; the child runs the command or exits with 127 after writing errno to `failure`.
pid_t Fork(const StringTable& arguments, const StringTable& variables, const sigset_t& mask, int out, int err,
           int failure) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  // A group of its own: a terminal's ^C reaches it through the launcher, once.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  dup2(out, 1);
  dup2(err, 2);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  execvpe(arguments.get()[0], arguments.get(), variables.get());
  const int error = errno;
  if (write(failure, &error, sizeof(error)) < 0) _exit(126);
  _exit(127);
}

class Launcher {
 public:
  explicit Launcher(const LaunchOptions& options) : options_(options) {}

  ~Launcher() {
    Signal(SIGKILL);
    for (const Process& process : processes_) {
      if (process.running) waitpid(process.pid, nullptr, 0);
    }
    for (const Output& output : outputs_) {
      if (output.fd >= 0) close(output.fd);
    }
  }

  absl::Status Start(int port) {
    for (int rank = 0; rank < options_.processes; ++rank) ARMATURE_RETURN_IF_ERROR(StartOne(rank, port));
    return absl::OkStatus();
  }

  LaunchResult Run() {
    while (Running()) {
      std::vector<pollfd> entries = {{signals_.fd(), POLLIN, 0}};
      for (const Output& output : outputs_) entries.push_back({output.fd, POLLIN, 0});
      poll(entries.data(), entries.size(), PollMilliseconds());
      for (size_t i = 0; i < outputs_.size(); ++i) {
        if (entries[i + 1].revents != 0) Pass(outputs_[i]);
      }
      for (int signal; (signal = signals_.Next()) != 0;) {
        if (signal != SIGCHLD) Signal(signal);
      }
      Reap();
      if (kill_at_ <= absl::Now()) {
        Signal(SIGKILL);
        kill_at_ = absl::InfiniteFuture();
      }
    }
    for (Output& output : outputs_) {
      while (output.fd >= 0 && Pass(output))
        continue;  // what lies in the pipe; a grandchild may keep it open
      Write(output.to, output.prefixer.Finish());
    }
    return result_;
  }

 private:
  absl::Status StartOne(int rank, int port) {
    int out[2], err[2], failure[2];
    if (pipe2(out, O_CLOEXEC) != 0) return SystemError("pipe");
    outputs_.push_back({out[0], options_.output_fd, LinePrefixer(absl::StrCat("[", rank, "] "))});
    const comm::Socket out_in(out[1]);
    if (pipe2(err, O_CLOEXEC) != 0) return SystemError("pipe");
    outputs_.push_back({err[0], options_.error_fd, LinePrefixer(absl::StrCat("[", rank, "] "))});
    const comm::Socket err_in(err[1]);
    if (pipe2(failure, O_CLOEXEC) != 0) return SystemError("pipe");
    const comm::Socket failure_out(failure[0]);
    comm::Socket failure_in(failure[1]);
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    const StringTable arguments(options_.command), variables(EnvironmentOf(options_, rank, port));
    const pid_t pid = Fork(arguments, variables, signals_.before(), out[1], err[1], failure[1]);
    if (pid < 0) return SystemError("fork");
    processes_.push_back({pid, true});
    failure_in = comm::Socket();  // the child's copy closes when the program begins
    int error = 0;
    if (read(failure[0], &error, sizeof(error)) != sizeof(error)) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat("launch ", options_.command[0], ": ", std::strerror(error)));
  }

  bool Running() const {
    return std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.running; });
  }

  // At most half a second: another thread of this process may have got the word that a child has ended.
  int PollMilliseconds() const {
    const int64_t left = absl::ToInt64Milliseconds(kill_at_ - absl::Now());
    return static_cast<int>(std::min<int64_t>(std::max<int64_t>(left + 1, 0), 500));
  }

  void Signal(int signal) {
    for (const Process& process : processes_) {
      if (process.running) kill(-process.pid, signal) == 0 || kill(process.pid, signal);
    }
  }

  // Passes on what there is; false at the end of the stream or if there is nothing now.
  bool Pass(Output& output) {
    char buffer[16384];
    const ssize_t got = read(output.fd, buffer, sizeof(buffer));
    if (got > 0) {
      const absl::string_view bytes(buffer, static_cast<size_t>(got));
      Write(output.to, options_.prefix_output ? output.prefixer.Add(bytes) : std::string(bytes));
      return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    close(std::exchange(output.fd, -1));
    return false;
  }

  static void Write(int fd, absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno != EINTR) return;  // nobody reads any more: the processes go on
      if (written > 0) bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void Reap() {
    for (size_t rank = 0; rank < processes_.size(); ++rank) {
      Process& process = processes_[rank];
      int status = 0;
      if (!process.running || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
      process.running = false;
      if (status == 0 || result_.failed_rank >= 0) continue;
      result_.failed_rank = static_cast<int>(rank);
      if (WIFSIGNALED(status)) {
        const int signal = WTERMSIG(status);
        result_.exit_code = 128 + signal;
        result_.why =
            absl::StrCat("rank ", rank, " was killed by signal ", signal, " (", strsignal(signal), ")");
      } else {
        result_.exit_code = WEXITSTATUS(status);
        result_.why = absl::StrCat("rank ", rank, " exited with code ", result_.exit_code);
      }
      Signal(SIGTERM);
      Signal(SIGCONT);  // a stopped one can't end
      kill_at_ = absl::Now() + options_.grace;
    }
  }

  const LaunchOptions& options_;
  const Signals signals_;
  std::vector<Process> processes_;
  std::vector<Output> outputs_;
  absl::Time kill_at_ = absl::InfiniteFuture();
  LaunchResult result_;
};

absl::StatusOr<int> FreePort() {
  ARMATURE_ASSIGN_OR_RETURN(comm::Socket socket, comm::Listen("127.0.0.1", 0));
  return comm::LocalPort(socket);
}

}  // namespace

absl::StatusOr<LaunchResult> Launch(const LaunchOptions& options) {
  if (options.processes < 1) {
    return absl::InvalidArgumentError(absl::StrCat("launch: ", options.processes, " processes"));
  }
  if (options.command.empty() || options.command[0].empty()) {
    return absl::InvalidArgumentError("launch: no command");
  }
  int port = options.master_port;
  if (port == 0) {
    ARMATURE_ASSIGN_OR_RETURN(port, FreePort());
  }
  Launcher launcher(options);
  ARMATURE_RETURN_IF_ERROR(launcher.Start(port));
  return launcher.Run();
}

}  // namespace launch
}  // namespace armature
