#include "armature/comm/store.h"

#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "armature/base/status_matchers.h"
#include "armature/comm/file_store.h"
#include "armature/comm/socket.h"
#include "armature/comm/tcp_store.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace comm {
namespace {

using ::testing::HasSubstr;

absl::Time Soon() { return absl::Now() + absl::Seconds(20); }

std::string FreshFolder() {
  std::string folder = absl::StrCat(::testing::TempDir(), "/store.XXXXXX");
  EXPECT_NE(mkdtemp(&folder[0]), nullptr);
  return folder;
}

// A store, and a second view of the same one as another process would have it.
struct Views {
  std::shared_ptr<Store> one, other;
};

struct StoreKind {
  std::string name;
  std::function<Views()> make;
};

std::vector<StoreKind> StoreKinds() {
  return {
      {"Inproc",
       [] {
         auto store = MakeInprocStore();
         return Views{store, store};
       }},
      {"File",
       [] {
         const std::string folder = FreshFolder();
         return Views{*OpenFileStore(folder), *OpenFileStore(folder)};
       }},
      {"Tcp",
       [] {
         auto server = *ServeTcpStore("127.0.0.1", 0);
         return Views{server, *ConnectTcpStore("127.0.0.1", server->port(), Soon())};
       }},
      {"TcpBetweenClients",
       [] {
         std::shared_ptr<TcpStoreServer> server = *ServeTcpStore("127.0.0.1", 0);
         auto one = *ConnectTcpStore("127.0.0.1", server->port(), Soon());
         // The first view keeps the server alive.
         struct Both {
           std::shared_ptr<Store> server, client;
         };
         auto both = std::make_shared<Both>(Both{server, one});
         return Views{std::shared_ptr<Store>(both, one.get()),
                      *ConnectTcpStore("localhost", server->port(), Soon())};
       }},
      {"Prefix",
       [] {
         auto store = MakeInprocStore();
         return Views{WithPrefix(store, "a/"), WithPrefix(store, "a/")};
       }},
  };
}

class StoreConformance : public ::testing::TestWithParam<StoreKind> {};

TEST_P(StoreConformance, ValuesOfAnyBytesReachTheOthers) {
  Views views = GetParam().make();
  const std::string bytes("\0\n\xFF value", 9), key("key / with \n everything \0", 25), large(1 << 20, 'x');
  ASSERT_THAT(views.one->Set(key, bytes), IsOk());
  EXPECT_THAT(views.other->Get(key, Soon()), IsOkAndHolds(bytes));
  ASSERT_THAT(views.other->Set(key, large), IsOk());
  EXPECT_THAT(views.one->Get(key, Soon()), IsOkAndHolds(large));
  ASSERT_THAT(views.other->Set(std::string(1000, 'k'), ""), IsOk());
  EXPECT_THAT(views.one->Get(std::string(1000, 'k'), Soon()), IsOkAndHolds(""));
}

TEST_P(StoreConformance, GetWaitsForTheValue) {
  Views views = GetParam().make();
  std::thread setter([&] {
    absl::SleepFor(absl::Milliseconds(30));
    EXPECT_THAT(views.other->Set("late", "1"), IsOk());
  });
  EXPECT_THAT(views.one->Get("late", Soon()), IsOkAndHolds("1"));
  setter.join();
}

TEST_P(StoreConformance, GetGivesUpAtTheDeadlineNamingTheKey) {
  Views views = GetParam().make();
  EXPECT_THAT(views.other->Get("absent", absl::Now() + absl::Milliseconds(20)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("absent")));
  EXPECT_THAT(views.other->Get("absent", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST_P(StoreConformance, ConcurrentAddsAreAllCounted) {
  Views views = GetParam().make();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Store& store = i % 2 == 0 ? *views.one : *views.other;
      for (int round = 0; round < 50; ++round) EXPECT_THAT(store.Add("counter", 3), IsOk());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(views.other->Add("counter", -700), IsOkAndHolds(-100));
  EXPECT_THAT(views.one->Add("counter", 101), IsOkAndHolds(1));
}

INSTANTIATE_TEST_SUITE_P(All, StoreConformance, ::testing::ValuesIn(StoreKinds()),
                         [](const auto& info) { return info.param.name; });

TEST(Prefix, KeepsKeysApart) {
  auto store = MakeInprocStore();
  ASSERT_THAT(WithPrefix(store, "a/")->Set("k", "1"), IsOk());
  EXPECT_THAT(store->Get("a/k", absl::InfinitePast()), IsOkAndHolds("1"));
  EXPECT_THAT(WithPrefix(store, "b/")->Get("k", absl::InfinitePast()),
              StatusIs(absl::StatusCode::kDeadlineExceeded));
}

TEST(TcpStore, NonsenseEndsOnlyItsOwnConnection) {
  ASSERT_OK_AND_ASSIGN(auto server, ServeTcpStore("127.0.0.1", 0));
  ASSERT_OK_AND_ASSIGN(auto client, ConnectTcpStore("127.0.0.1", server->port(), Soon()));
  ASSERT_OK_AND_ASSIGN(Socket stranger, ConnectTo("127.0.0.1", server->port(), Soon()));
  ASSERT_THAT(stranger.SendAll("GET / HTTP/1.1\r\n\r\n", Soon()), IsOk());
  char byte;
  EXPECT_THAT(stranger.ReceiveAll(&byte, 1, Soon()), StatusIs(absl::StatusCode::kUnavailable));
  ASSERT_THAT(client->Set("k", "v"), IsOk());
  EXPECT_THAT(server->Get("k", Soon()), IsOkAndHolds("v"));
}

TEST(TcpStore, ALostServerIsUnavailable) {
  ASSERT_OK_AND_ASSIGN(auto server, ServeTcpStore("127.0.0.1", 0));
  ASSERT_OK_AND_ASSIGN(auto client, ConnectTcpStore("127.0.0.1", server->port(), Soon()));
  server = nullptr;
  EXPECT_THAT(client->Set("k", "v"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1")));
  EXPECT_THAT(client->Set("k", "v"), StatusIs(absl::StatusCode::kUnavailable));
}

TEST(TcpStore, TakenAndAbsentAddressesAreNamed) {
  ASSERT_OK_AND_ASSIGN(auto server, ServeTcpStore("127.0.0.1", 0));
  EXPECT_THAT(ServeTcpStore("127.0.0.1", server->port()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("127.0.0.1")));
  const int port = server->port();
  server = nullptr;
  EXPECT_THAT(ConnectTcpStore("127.0.0.1", port, absl::Now() + absl::Milliseconds(50)),
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr(absl::StrCat("127.0.0.1:", port))));
}

TEST(FileStore, AnUnusableFolderIsNamed) {
  EXPECT_THAT(OpenFileStore("/proc/nothing/here"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("/proc/nothing/here")));
}

}  // namespace
}  // namespace comm
}  // namespace armature
