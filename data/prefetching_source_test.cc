#include "armature/data/prefetching_source.h"

#include <atomic>
#include <numeric>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/data/language_model_source.h"
#include "armature/data/token_file_writer.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Batches of one sample each, which holds 0, 1, 2, ... up to `end`. Fails once before `fail_before`.
class CountingSource final : public BatchSource {
 public:
  CountingSource(int32_t end, int32_t fail_before, std::atomic<int>* calls)
      : end_(end), fail_before_(fail_before), calls_(calls) {}

  absl::StatusOr<absl::optional<Batch>> Next() override {
    ++*calls_;
    if (next_ == fail_before_) {
      fail_before_ = -1;
      return absl::UnavailableError(absl::StrCat("no ", next_, " today"));
    }
    if (next_ == end_) return absl::nullopt;
    Batch batch;
    batch.fields.push_back({"value", *Array::FromValues<int32_t>(Shape({1}), {next_++})});
    return batch;
  }
  std::string Position() const override { return absl::StrCat(next_); }
  absl::Status Restore(absl::string_view position) override {
    int32_t next = 0;
    if (!absl::SimpleAtoi(position, &next)) return absl::InvalidArgumentError("no number");
    next_ = next;
    return absl::OkStatus();
  }

 private:
  const int32_t end_;
  int32_t fail_before_;
  std::atomic<int>* const calls_;
  int32_t next_ = 0;
};

class PrefetchingSourceTest : public ::testing::Test {
 protected:
  std::unique_ptr<PrefetchingSource> Make(int64_t depth, int32_t end, int32_t fail_before = -1) {
    PrefetchOptions options;
    options.depth = depth;
    options.cancellation = cancellation_.token();
    return std::make_unique<PrefetchingSource>(std::make_unique<CountingSource>(end, fail_before, &calls_),
                                               options);
  }

  CancellationSource cancellation_;
  std::atomic<int> calls_{0};
};

// The next batch's value; -1 at the end, -2 for an error.
int32_t NextValue(BatchSource& source) {
  const absl::StatusOr<absl::optional<Batch>> batch = source.Next();
  if (!batch.ok()) return -2;
  return batch->has_value() ? (*batch)->Find("value")->values<int32_t>()[0] : -1;
}

TEST_F(PrefetchingSourceTest, BatchesAndTheEndComeInOrder) {
  for (int64_t depth : {-1, 1, 2, 100}) {
    const auto source = Make(depth, 50);
    for (int32_t i = 0; i < 50; ++i) EXPECT_EQ(NextValue(*source), i);
    EXPECT_EQ(NextValue(*source), -1);
    EXPECT_EQ(NextValue(*source), -1);
  }
}

TEST_F(PrefetchingSourceTest, ReadsNoFurtherAheadThanItsDepth) {
  const auto source = Make(3, 50);
  while (calls_ < 3) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(calls_, 3);
  EXPECT_EQ(NextValue(*source), 0);
  while (calls_ < 4) std::this_thread::yield();
}

TEST_F(PrefetchingSourceTest, ThePositionIsThatOfWhatWasTaken) {
  const auto source = Make(5, 50);
  while (calls_ < 5) std::this_thread::yield();
  EXPECT_EQ(source->Position(), "0");
  EXPECT_EQ(NextValue(*source), 0);
  EXPECT_EQ(source->Position(), "1");
}

TEST_F(PrefetchingSourceTest, AnErrorComesInItsPlaceAndTheNextCallTriesAgain) {
  for (int64_t depth : {1, 3}) {
    const auto source = Make(depth, 3, /*fail_before=*/1);
    EXPECT_EQ(NextValue(*source), 0);
    EXPECT_THAT(source->Next(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no 1 today")));
    EXPECT_EQ(source->Position(), "1");
    EXPECT_EQ(NextValue(*source), 1);
    EXPECT_EQ(NextValue(*source), 2);
    EXPECT_EQ(NextValue(*source), -1);
  }
}

TEST_F(PrefetchingSourceTest, RestoresForthAndBackAndBehindTheEnd) {
  const auto source = Make(4, 10);
  EXPECT_EQ(NextValue(*source), 0);
  ASSERT_THAT(source->Restore("8"), IsOk());
  EXPECT_EQ(source->Position(), "8");
  EXPECT_EQ(NextValue(*source), 8);
  EXPECT_EQ(NextValue(*source), 9);
  EXPECT_EQ(NextValue(*source), -1);
  ASSERT_THAT(source->Restore("2"), IsOk());
  EXPECT_EQ(NextValue(*source), 2);
}

TEST_F(PrefetchingSourceTest, ARefusedPositionChangesNothing) {
  const auto source = Make(2, 10);
  EXPECT_EQ(NextValue(*source), 0);
  EXPECT_THAT(source->Restore("x"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_EQ(source->Position(), "1");
  for (int32_t i = 1; i < 10; ++i) EXPECT_EQ(NextValue(*source), i);
}

TEST_F(PrefetchingSourceTest, DestructionNeverHangs) {
  for (int round = 0; round < 100; ++round) {
    const auto source = Make(1 + round % 3, round % 5, round % 7);
    for (int i = 0; i < round % 4; ++i) NextValue(*source);
  }
}

// A source that waits until it is told to go on.
class StuckSource final : public BatchSource {
 public:
  explicit StuckSource(CancellationToken go_on) : go_on_(std::move(go_on)) {}
  absl::StatusOr<absl::optional<Batch>> Next() override {
    RealClock clock;
    return go_on_.WaitUntil(clock, absl::InfiniteFuture());
  }
  std::string Position() const override { return ""; }
  absl::Status Restore(absl::string_view) override { return absl::OkStatus(); }

 private:
  const CancellationToken go_on_;
};

TEST_F(PrefetchingSourceTest, CancellationEndsAWaitForASlowSource) {
  CancellationSource go_on;
  PrefetchOptions options;
  options.cancellation = cancellation_.token();
  PrefetchingSource source(std::make_unique<StuckSource>(go_on.token()), options);
  std::thread canceller([&] { cancellation_.Cancel(absl::AbortedError("stop")); });
  EXPECT_THAT(source.Next(), StatusIs(absl::StatusCode::kAborted));
  canceller.join();
  go_on.Cancel(absl::AbortedError("go on"));
}

// Samples 0, 1, 2, ... of a corpus, four to a batch, as one loader or another would give them.
class ResumedLoaderTest : public ::testing::Test {
 protected:
  ResumedLoaderTest() {
    std::vector<int32_t> tokens(13);
    std::iota(tokens.begin(), tokens.end(), 0);
    const auto writer = TokenFileWriter::Create(files_, "corpus", {100});
    EXPECT_THAT((*writer)->Append(tokens), IsOk());
    EXPECT_THAT((*writer)->Finish(), IsOk());
    file_ = std::make_shared<TokenFile>(*TokenFile::Open(files_, "corpus"));
  }

  std::unique_ptr<PrefetchingSource> MakeLoader(int64_t depth) {
    LanguageModelOptions options;
    options.sequence_length = 1;
    options.batch_size = 4;
    options.shuffle = false;
    PrefetchOptions prefetch;
    prefetch.depth = depth;
    return std::make_unique<PrefetchingSource>(*LanguageModelSource::Create(file_, options), prefetch);
  }

  MemoryFileSystem files_;
  std::shared_ptr<const TokenFile> file_;
};

TEST_F(ResumedLoaderTest, GoesOnWhereTheFirstOneWasAtAnyDepth) {
  const auto samples = [](BatchSource& source) {
    const Batch batch = **source.Next();
    const absl::Span<const int32_t> tokens = batch.Find("tokens")->values<int32_t>();
    return std::vector<int32_t>(tokens.begin(), tokens.end());
  };
  const auto first = MakeLoader(1);
  EXPECT_THAT(samples(*first), ElementsAre(0, 1, 2, 3));
  const auto second = MakeLoader(2);
  ASSERT_THAT(second->Restore(first->Position()), IsOk());
  EXPECT_THAT(samples(*second), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(samples(*second), ElementsAre(8, 9, 10, 11));
}

}  // namespace
}  // namespace armature
