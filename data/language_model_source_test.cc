#include "armature/data/language_model_source.h"

#include <numeric>
#include <vector>

#include "armature/base/memory_file_system.h"
#include "armature/base/status_matchers.h"
#include "armature/data/token_file_writer.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

constexpr absl::StatusCode kInvalidArgument = absl::StatusCode::kInvalidArgument;

// Tokens 0, 1, 2, ...
std::shared_ptr<const TokenFile> MakeFile(int64_t num_tokens) {
  MemoryFileSystem files;
  std::vector<int32_t> tokens(num_tokens);
  std::iota(tokens.begin(), tokens.end(), 0);
  const auto writer = TokenFileWriter::Create(files, "corpus", {1000});
  EXPECT_THAT((*writer)->Append(tokens), IsOk());
  EXPECT_THAT((*writer)->Finish(), IsOk());
  return std::make_shared<TokenFile>(*TokenFile::Open(files, "corpus"));
}

LanguageModelOptions Options(int64_t sequence_length, int64_t batch_size) {
  LanguageModelOptions options;
  options.sequence_length = sequence_length;
  options.batch_size = batch_size;
  options.shuffle = false;
  return options;
}

absl::Span<const int32_t> Values(const Batch& batch, absl::string_view name) {
  return batch.Find(name)->values<int32_t>();
}

// All targets of the batches that are left, in order, without the ignored ones. At most `max_batches`.
std::vector<int32_t> Targets(BatchSource& source, int max_batches = 1000) {
  std::vector<int32_t> result;
  for (int i = 0; i < max_batches; ++i) {
    const absl::StatusOr<absl::optional<Batch>> batch = source.Next();
    EXPECT_THAT(batch, IsOk());
    if (!batch.ok() || !batch->has_value()) break;
    for (int32_t target : Values(**batch, "targets")) {
      if (target != kIgnoredTarget) result.push_back(target);
    }
  }
  return result;
}

std::vector<int32_t> Range(int32_t begin, int32_t end) {
  std::vector<int32_t> result(end - begin);
  std::iota(result.begin(), result.end(), begin);
  return result;
}

TEST(LanguageModelSource, TargetsAreTheNextTokens) {
  ASSERT_OK_AND_ASSIGN(const auto source, LanguageModelSource::Create(MakeFile(20), Options(3, 2)));
  EXPECT_EQ(source->num_samples(), 6);
  ASSERT_OK_AND_ASSIGN(const auto batch, source->Next());
  ASSERT_TRUE(batch.has_value());
  EXPECT_THAT(batch->Validate(), IsOk());
  EXPECT_EQ(batch->Find("tokens")->shape(), Shape({2, 3}));
  EXPECT_THAT(Values(*batch, "tokens"), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(Values(*batch, "targets"), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(LanguageModelSource, EveryEpochHasEverySampleInAnotherOrder) {
  LanguageModelOptions options = Options(1, 3);
  options.shuffle = true;
  options.tail = Tail::kKeep;
  ASSERT_OK_AND_ASSIGN(const auto source, LanguageModelSource::Create(MakeFile(21), options));
  std::vector<int32_t> first = Targets(*source, 7);
  std::vector<int32_t> second = Targets(*source, 7);
  EXPECT_NE(first, second);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  EXPECT_EQ(first, Range(1, 21));
  EXPECT_EQ(second, Range(1, 21));
}

TEST(LanguageModelSource, EndsAfterItsEpochsAndStaysThere) {
  LanguageModelOptions options = Options(2, 2);
  options.num_epochs = 3;
  ASSERT_OK_AND_ASSIGN(const auto source, LanguageModelSource::Create(MakeFile(12), options));
  EXPECT_EQ(Targets(*source).size(), 3 * 2 * 4);  // 5 samples, of which 4 fill batches
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK_AND_ASSIGN(const auto batch, source->Next());
    EXPECT_FALSE(batch.has_value());
  }
}

TEST(LanguageModelSource, EvaluationSeesEveryTargetOnce) {
  for (int64_t num_tokens : {2, 3, 7, 24, 25, 26}) {
    ASSERT_OK_AND_ASSIGN(const auto source,
                         LanguageModelSource::Create(MakeFile(num_tokens), EvaluationOptions(4, 3)));
    EXPECT_THAT(Targets(*source), ElementsAreArray(Range(1, num_tokens)));
  }
}

TEST(LanguageModelSource, APartialWindowIsPaddedAndIgnored) {
  ASSERT_OK_AND_ASSIGN(const auto source, LanguageModelSource::Create(MakeFile(7), EvaluationOptions(4, 8)));
  ASSERT_OK_AND_ASSIGN(const auto batch, source->Next());
  EXPECT_THAT(Values(*batch, "tokens"), ElementsAre(0, 1, 2, 3, 4, 5, 0, 0));
  EXPECT_THAT(Values(*batch, "targets"), ElementsAre(1, 2, 3, 4, 5, 6, -100, -100));
}

TEST(LanguageModelSource, PaddingSamplesAreIgnored) {
  LanguageModelOptions options = Options(2, 4);
  options.tail = Tail::kPad;
  options.num_epochs = 1;
  ASSERT_OK_AND_ASSIGN(const auto source, LanguageModelSource::Create(MakeFile(11), options));
  ASSERT_THAT(source->Next(), IsOk());
  ASSERT_OK_AND_ASSIGN(const auto last, source->Next());
  EXPECT_EQ(last->num_samples(), 4);
  EXPECT_THAT(Values(*last, "targets"), ElementsAre(9, 10, -100, -100, -100, -100, -100, -100));
}

TEST(LanguageModelSource, RanksShareEveryGlobalBatch) {
  const auto file = MakeFile(21);
  for (int64_t num_ranks : {1, 2, 3, 4, 7}) {
    LanguageModelOptions options = Options(1, 6);
    options.shuffle = true;
    options.tail = Tail::kKeep;
    options.num_epochs = 1;
    ASSERT_OK_AND_ASSIGN(const auto whole, LanguageModelSource::Create(file, options));
    std::vector<std::unique_ptr<LanguageModelSource>> ranks;
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      options.rank = rank;
      options.num_ranks = num_ranks;
      ASSERT_OK_AND_ASSIGN(auto source, LanguageModelSource::Create(file, options));
      ranks.push_back(std::move(source));
    }
    for (int i = 0; i < 4; ++i) {
      ASSERT_OK_AND_ASSIGN(const auto global, whole->Next());
      std::vector<int32_t> joined;
      for (const auto& rank : ranks) {
        ASSERT_OK_AND_ASSIGN(const auto share, rank->Next());
        EXPECT_EQ(share->first_sample, joined.size());
        EXPECT_THAT(share->Validate(), IsOk());
        const absl::Span<const int32_t> tokens = Values(*share, "tokens");
        joined.insert(joined.end(), tokens.begin(), tokens.end());
      }
      EXPECT_THAT(joined, ElementsAreArray(Values(*global, "tokens")));
    }
  }
}

TEST(LanguageModelSource, ResumesExactlyAndWithAnotherBatchSize) {
  const auto file = MakeFile(21);
  LanguageModelOptions options = Options(1, 3);
  options.shuffle = true;
  options.tail = Tail::kKeep;
  options.num_epochs = 2;
  ASSERT_OK_AND_ASSIGN(const auto uninterrupted, LanguageModelSource::Create(file, options));
  const std::vector<int32_t> expected = Targets(*uninterrupted);
  for (int stop = 0; stop <= 14; ++stop) {
    ASSERT_OK_AND_ASSIGN(const auto first, LanguageModelSource::Create(file, options));
    std::vector<int32_t> seen = Targets(*first, stop);
    LanguageModelOptions resized = options;
    resized.batch_size = 1 + stop % 5;
    ASSERT_OK_AND_ASSIGN(const auto second, LanguageModelSource::Create(file, resized));
    ASSERT_THAT(second->Restore(first->Position()), IsOk());
    EXPECT_EQ(second->Position(), first->Position());
    const std::vector<int32_t> rest = Targets(*second);
    seen.insert(seen.end(), rest.begin(), rest.end());
    EXPECT_EQ(seen, expected) << stop;
  }
}

TEST(LanguageModelSource, RefusesWhatIsNoPositionOfItsData) {
  ASSERT_OK_AND_ASSIGN(const auto source, LanguageModelSource::Create(MakeFile(21), Options(2, 3)));
  ASSERT_THAT(source->Next(), IsOk());
  const std::string position = source->Position();
  EXPECT_EQ(position, "epoch=0 index=3 samples=10 sequence=2 seed=0 shuffle=0");
  for (const char* bad : {"", "epoch=1", "epoch=x index=3 samples=10", "index=3 epoch=0 samples=10",
                          "epoch=0 index=11 samples=10 sequence=2 seed=0 shuffle=0",
                          "epoch=-1 index=0 samples=10 sequence=2 seed=0 shuffle=0",
                          "epoch=0 index=99999999999999999999 samples=10 sequence=2 seed=0 shuffle=0"}) {
    EXPECT_THAT(source->Restore(bad), StatusIs(kInvalidArgument)) << bad;
  }
  EXPECT_THAT(source->Restore("epoch=0 index=3 samples=11 sequence=2 seed=0 shuffle=0"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("samples=11")));
  EXPECT_EQ(source->Position(), position);
}

TEST(LanguageModelSource, BadOptionsAreNamed) {
  const auto file = MakeFile(10);
  const auto create = [&](const LanguageModelOptions& options) {
    return LanguageModelSource::Create(file, options).status();
  };
  EXPECT_THAT(create(Options(0, 1)), StatusIs(kInvalidArgument, HasSubstr("sequence_length 0")));
  EXPECT_THAT(create(Options(1, -1)), StatusIs(kInvalidArgument, HasSubstr("batch_size -1")));
  EXPECT_THAT(create(Options(10, 1)),
              StatusIs(kInvalidArgument, HasSubstr("corpus: 10 tokens make 0 samples")));
  EXPECT_THAT(create(Options(2, 5)), StatusIs(kInvalidArgument, HasSubstr("a batch needs 5")));
  EXPECT_THAT(create(Options(int64_t{1} << 40, int64_t{1} << 40)),
              StatusIs(kInvalidArgument, HasSubstr("2^63-1")));
  LanguageModelOptions rank = Options(1, 1);
  rank.rank = 2;
  rank.num_ranks = 2;
  EXPECT_THAT(create(rank), StatusIs(kInvalidArgument, HasSubstr("rank 2 of 2")));
  LanguageModelOptions epochs = Options(1, 1);
  epochs.num_epochs = -1;
  EXPECT_THAT(create(epochs), StatusIs(kInvalidArgument, HasSubstr("num_epochs -1")));
}

}  // namespace
}  // namespace armature
