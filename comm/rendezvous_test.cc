#include "armature/comm/rendezvous.h"

#include <cstdlib>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/tcp_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

absl::StatusOr<ProcessPlace> PlaceWith(const Variables& variables) {
  return PlaceFromEnvironment([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

void ExpectPlace(const Variables& variables, int rank, int size, int local, absl::string_view rendezvous) {
  ASSERT_OK_AND_ASSIGN(ProcessPlace place, PlaceWith(variables));
  EXPECT_EQ(place.rank, rank);
  EXPECT_EQ(place.world_size, size);
  EXPECT_EQ(place.local_rank, local);
  EXPECT_EQ(place.rendezvous, rendezvous);
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "8"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "node7"},
                             {"MASTER_PORT", "29500"}};

Variables With(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

TEST(PlaceFromEnvironment, WithoutALauncherIsAWorldOfOne) { ExpectPlace({}, 0, 1, 0, "inproc"); }

TEST(PlaceFromEnvironment, KnowsTorchrun) {
  ExpectPlace(kTorchrun, 3, 8, 1, "tcp://node7:29500");
  ExpectPlace(With(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"), 3, 8, 1, "tcp://node7:29501");
  ExpectPlace(With(kTorchrun, "ARMATURE_RENDEZVOUS", "file:///shared/run1"), 3, 8, 1, "file:///shared/run1");
}

TEST(PlaceFromEnvironment, KnowsOpenMpi) {
  Variables variables = {{"OMPI_COMM_WORLD_RANK", "1"},
                         {"OMPI_COMM_WORLD_SIZE", "2"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                         {"PMIX_NAMESPACE", "12345"}};
  ASSERT_OK_AND_ASSIGN(ProcessPlace one, PlaceWith(variables));
  ASSERT_OK_AND_ASSIGN(ProcessPlace other, PlaceWith(With(variables, "OMPI_COMM_WORLD_RANK", "0")));
  EXPECT_THAT(one.rendezvous, HasSubstr("tcp://127.0.0.1:"));
  EXPECT_EQ(one.rendezvous, other.rendezvous);
  EXPECT_EQ(one.launcher, "Open MPI");
  EXPECT_THAT(PlaceWith(With(variables, "OMPI_COMM_WORLD_SIZE", "4")),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("MASTER_ADDR")));
  ExpectPlace(With(With(variables, "MASTER_ADDR", "head"), "MASTER_PORT", "1234"), 1, 2, 1,
              "tcp://head:1234");
}

TEST(PlaceFromEnvironment, KnowsSlurm) {
  Variables variables = {{"SLURM_PROCID", "5"},  {"SLURM_STEP_NUM_TASKS", "8"},
                         {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "77"},
                         {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NODELIST", "gpu[07-09,12]"}};
  ASSERT_OK_AND_ASSIGN(ProcessPlace place, PlaceWith(variables));
  EXPECT_EQ(place.rank, 5);
  EXPECT_EQ(place.world_size, 8);
  EXPECT_THAT(place.rendezvous, HasSubstr("tcp://gpu07:"));
  ASSERT_OK_AND_ASSIGN(place, PlaceWith(With(variables, "SLURM_STEP_NODELIST", "a1,a2")));
  EXPECT_THAT(place.rendezvous, HasSubstr("tcp://a1:"));
  variables.erase("SLURM_STEP_NUM_TASKS");  // a batch script, not a task
  ExpectPlace(variables, 0, 1, 0, "inproc");
}

TEST(PlaceFromEnvironment, NamesTheVariableThatIsWrong) {
  const auto expect = [](const Variables& variables, const std::string& text) {
    EXPECT_THAT(PlaceWith(variables), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(text)));
  };
  expect(With(kTorchrun, "RANK", "x"), "RANK is \"x\"");
  expect(With(kTorchrun, "RANK", "8"), "RANK is 8 and WORLD_SIZE is 8");
  expect(With(kTorchrun, "WORLD_SIZE", "0"), "WORLD_SIZE");
  expect(With(kTorchrun, "MASTER_PORT", ""), "MASTER_PORT is not set");
  expect(With(kTorchrun, "LOCAL_RANK", "-1"), "LOCAL_RANK");
  expect(With(kTorchrun, "MASTER_ADDR", ""), "MASTER_ADDR");
}

TEST(OpenRendezvous, TheFirstRankServesAndOthersConnect) {
  ASSERT_OK_AND_ASSIGN(auto free_port, ServeTcpStore("127.0.0.1", 0));
  ProcessPlace place;
  place.world_size = 2;
  place.rendezvous = absl::StrCat("tcp://127.0.0.1:", free_port->port());
  free_port = nullptr;
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  std::thread second([place, deadline]() mutable {
    place.rank = 1;
    ASSERT_OK_AND_ASSIGN(auto store, OpenRendezvous(place, deadline));
    EXPECT_THAT(store->Set("k", "from 1"), IsOk());
    EXPECT_THAT(store->Get("bye", deadline), IsOk());
  });
  absl::SleepFor(absl::Milliseconds(20));  // the second knocks first
  ASSERT_OK_AND_ASSIGN(auto store, OpenRendezvous(place, deadline));
  EXPECT_THAT(store->Get("k", deadline), IsOkAndHolds("from 1"));
  EXPECT_THAT(store->Set("bye", ""), IsOk());
  second.join();
}

TEST(OpenRendezvous, MeetsInAFolder) {
  std::string folder = absl::StrCat(::testing::TempDir(), "/rendezvous.XXXXXX");
  ASSERT_NE(mkdtemp(&folder[0]), nullptr);
  ProcessPlace place;
  place.world_size = 2;
  place.rendezvous = absl::StrCat("file://", folder);
  ASSERT_OK_AND_ASSIGN(auto one, OpenRendezvous(place, absl::InfiniteFuture()));
  ASSERT_OK_AND_ASSIGN(auto other, OpenRendezvous(place, absl::InfiniteFuture()));
  ASSERT_THAT(one->Set("k", "v"), IsOk());
  EXPECT_THAT(other->Get("k", absl::InfinitePast()), IsOkAndHolds("v"));
}

TEST(OpenRendezvous, RefusesOtherForms) {
  for (const char* form :
       {"tcp://host", "tcp://:1", "tcp://host:0", "tcp://host:65536", "tcp://host:x", "etcd://h:1", ""}) {
    ProcessPlace place;
    place.rendezvous = form;
    EXPECT_THAT(OpenRendezvous(place, absl::InfinitePast()), StatusIs(absl::StatusCode::kInvalidArgument))
        << form;
  }
  ProcessPlace two;
  two.world_size = 2;
  EXPECT_THAT(OpenRendezvous(two, absl::InfinitePast()), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace comm
}  // namespace armature
