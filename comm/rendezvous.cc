#include "armature/comm/rendezvous.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "armature/base/status_macros.h"
#include "armature/comm/file_store.h"
#include "armature/comm/tcp_store.h"

namespace armature {
namespace comm {
namespace {

class Environment {
 public:
  explicit Environment(const std::function<const char*(const char*)>& get) : get_(get) {}

  bool Has(const char* name) const { return get_(name) != nullptr; }

  absl::optional<std::string> Text(const char* name) const {
    const char* const value = get_(name);
    if (value == nullptr || *value == '\0') return absl::nullopt;
    return std::string(value);
  }

  absl::StatusOr<int> Number(const char* name, int least) const {
    const absl::optional<std::string> text = Text(name);
    if (!text) return absl::InvalidArgumentError(absl::StrCat("environment: ", name, " is not set"));
    int value = 0;
    if (!absl::SimpleAtoi(*text, &value) || value < least) {
      return absl::InvalidArgumentError(
          absl::StrCat("environment: ", name, " is \"", *text, "\", not a number >= ", least));
    }
    return value;
  }

 private:
  const std::function<const char*(const char*)>& get_;
};

// Names of the variables of a launcher.
struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
};

constexpr Launcher kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Launcher kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                               "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Launcher kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"};

// A batch script outside of srun has SLURM_PROCID too, but no step of several tasks.
const Launcher* FindLauncher(const Environment& environment) {
  for (const Launcher* launcher : {&kTorchrun, &kOpenMpi, &kSlurm}) {
    if (environment.Has(launcher->rank) && environment.Has(launcher->size)) return launcher;
  }
  return nullptr;
}

// "node[07-09,12],x3" -> "node07"; "a1,a2" -> "a1".
std::string FirstNode(absl::string_view list) {
  const size_t end = list.find_first_of(",[");
  if (end == absl::string_view::npos || list[end] == ',') return std::string(list.substr(0, end));
  const absl::string_view numbers = list.substr(end + 1);
  return absl::StrCat(list.substr(0, end), numbers.substr(0, numbers.find_first_of(",-]")));
}

// The same for all processes of a job, and likely another for another job.
int PortOfJob(absl::string_view job) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (char c : job) hash = (hash ^ static_cast<uint8_t>(c)) * 16777619u;
  return static_cast<int>(20000 + hash % 10000);
}

absl::StatusOr<std::string> TcpAddress(const Environment& environment, const Launcher& launcher) {
  absl::optional<std::string> host = environment.Text("MASTER_ADDR");
  std::string job = launcher.name;
  if (&launcher == &kOpenMpi) {
    const bool one_host = environment.Text("OMPI_COMM_WORLD_LOCAL_SIZE") == environment.Text(launcher.size);
    if (!host && one_host) host = "127.0.0.1";
    job += environment.Text("PMIX_NAMESPACE").value_or("");
  } else if (&launcher == &kSlurm) {
    const absl::optional<std::string> nodes = environment.Text("SLURM_STEP_NODELIST");
    if (!host && nodes) host = FirstNode(*nodes);
    job += absl::StrCat(environment.Text("SLURM_JOB_ID").value_or(""), ".",
                        environment.Text("SLURM_STEP_ID").value_or(""));
  }
  if (!host) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment: MASTER_ADDR is not set, and ", launcher.name,
                     " does not say where rank 0 runs; ARMATURE_RENDEZVOUS may say it"));
  }
  int port = PortOfJob(job);
  if (&launcher == &kTorchrun || environment.Has("MASTER_PORT")) {
    ARMATURE_ASSIGN_OR_RETURN(port, environment.Number("MASTER_PORT", 1));
    if (environment.Text("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True") ++port;
  }
  return absl::StrCat("tcp://", *host, ":", port);
}

struct HostPort {
  std::string host;
  int port = 0;
};

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const size_t colon = text.rfind(':');
  HostPort parsed;
  if (colon == absl::string_view::npos || colon == 0 ||
      !absl::SimpleAtoi(text.substr(colon + 1), &parsed.port) || parsed.port < 1 || parsed.port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("rendezvous tcp://", text, ": not tcp://host:port"));
  }
  absl::string_view host = text.substr(0, colon);
  if (absl::ConsumePrefix(&host, "[")) absl::ConsumeSuffix(&host, "]");  // an IPv6 address
  parsed.host = std::string(host);
  return parsed;
}

}  // namespace

absl::StatusOr<ProcessPlace> PlaceFromEnvironment(
    const std::function<const char*(const char*)>& get_environment) {
  const Environment environment(get_environment);
  ProcessPlace place;
  const Launcher* const launcher = FindLauncher(environment);
  if (launcher == nullptr) return place;
  place.launcher = launcher->name;
  ARMATURE_ASSIGN_OR_RETURN(place.rank, environment.Number(launcher->rank, 0));
  ARMATURE_ASSIGN_OR_RETURN(place.world_size, environment.Number(launcher->size, 1));
  ARMATURE_ASSIGN_OR_RETURN(place.local_rank, environment.Number(launcher->local_rank, 0));
  if (place.rank >= place.world_size) {
    return absl::InvalidArgumentError(absl::StrCat("environment: ", launcher->rank, " is ", place.rank,
                                                   " and ", launcher->size, " is ", place.world_size));
  }
  if (environment.Text("ARMATURE_RENDEZVOUS")) {
    place.rendezvous = *environment.Text("ARMATURE_RENDEZVOUS");
  } else if (place.world_size > 1) {
    ARMATURE_ASSIGN_OR_RETURN(place.rendezvous, TcpAddress(environment, *launcher));
  }
  return place;
}

absl::StatusOr<std::shared_ptr<Store>> OpenRendezvous(const ProcessPlace& place, absl::Time deadline) {
  absl::string_view address = place.rendezvous;
  if (address == "inproc") {
    if (place.world_size == 1) return MakeInprocStore();
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous inproc: ", place.world_size, " processes can't meet in one's memory"));
  }
  if (absl::ConsumePrefix(&address, "file://")) return OpenFileStore(address);
  if (!absl::ConsumePrefix(&address, "tcp://")) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous ", place.rendezvous, ": not inproc, tcp://host:port or file:///folder"));
  }
  ARMATURE_ASSIGN_OR_RETURN(HostPort at, ParseHostPort(address));
  if (place.rank != 0) return ConnectTcpStore(at.host, at.port, deadline);
  ARMATURE_ASSIGN_OR_RETURN(std::shared_ptr<TcpStoreServer> server, ServeTcpStore(at.host, at.port));
  return server;
}

}  // namespace comm
}  // namespace armature
