#include "armature/data/sampler.h"

#include <algorithm>
#include <numeric>

#include "armature/base/status_matchers.h"

namespace armature {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::Not;

using Samples = std::vector<int64_t>;

Sampler MakeSampler(int64_t num_samples, Tail tail, bool shuffle = false) {
  SamplerOptions options;
  options.num_samples = num_samples;
  options.shuffle = shuffle;
  options.seed = 7;
  options.tail = tail;
  return *Sampler::Create(options);
}

// What each rank draws in epoch 0.
std::vector<Samples> EpochOfRanks(const Sampler& sampler, int64_t batch_size, int64_t num_ranks) {
  std::vector<Samples> ranks(num_ranks);
  SamplePosition position;
  while (sampler.Normalized(batch_size, position).epoch == 0) {
    const SampleDraw draw = sampler.Draw(batch_size, position);
    for (int64_t rank = 0; rank < num_ranks; ++rank) {
      const RankShare share = ShareOfRank(draw.samples.size(), rank, num_ranks);
      ranks[rank].insert(ranks[rank].end(), draw.samples.begin() + share.begin,
                         draw.samples.begin() + share.end);
    }
  }
  return ranks;
}

Samples Draw(const Sampler& sampler, int64_t batch_size, int batches, SamplePosition& position) {
  Samples all;
  for (int i = 0; i < batches; ++i) {
    const SampleDraw draw = sampler.Draw(batch_size, position);
    all.insert(all.end(), draw.samples.begin(), draw.samples.end());
  }
  return all;
}

Samples Uninterrupted(const Sampler& sampler, int64_t epoch) {
  Samples order;
  for (int64_t i = 0; i < sampler.options().num_samples; ++i) order.push_back(sampler.At(epoch, i));
  return order;
}

TEST(Sampler, FewerSamplesThanRanksGoRoundAndRound) {
  const Sampler sampler = MakeSampler(3, Tail::kPad);
  SamplePosition position;
  const SampleDraw draw = sampler.Draw(8, position);
  EXPECT_THAT(draw.samples, ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
  EXPECT_EQ(draw.num_real, 3);
}

TEST(Sampler, TenSamplesOverFourRanks) {
  EXPECT_THAT(EpochOfRanks(MakeSampler(10, Tail::kPad), 4, 4),
              ElementsAre(Samples{0, 4, 8}, Samples{1, 5, 9}, Samples{2, 6, 0}, Samples{3, 7, 1}));
  EXPECT_THAT(EpochOfRanks(MakeSampler(10, Tail::kDrop), 4, 4),
              ElementsAre(Samples{0, 4}, Samples{1, 5}, Samples{2, 6}, Samples{3, 7}));
}

TEST(Sampler, PaddingIsNeverCounted) {
  // Five samples over two ranks, of which 0, 2 and 4 are right.
  for (Tail tail : {Tail::kKeep, Tail::kPad}) {
    const Sampler sampler = MakeSampler(5, tail);
    SamplePosition position;
    int right = 0;
    int counted = 0;
    while (sampler.Normalized(2, position).epoch == 0) {
      const SampleDraw draw = sampler.Draw(2, position);
      for (int64_t i = 0; i < draw.num_real; ++i) {
        ++counted;
        right += draw.samples[i] % 2 == 0;
      }
    }
    EXPECT_EQ(counted, 5);
    EXPECT_EQ(right, 3);
  }
}

TEST(Sampler, StoppedAndResumedTheOrderIsThatOfOneRun) {
  const Sampler sampler = MakeSampler(20, Tail::kKeep, /*shuffle=*/true);
  Samples seen;
  SamplePosition position;
  // Stopped after 2 batches of 3 and again after 4: what goes on is a new sampler at the saved position.
  for (int batches : {2, 2, 3}) {
    const SamplePosition saved = position;
    const Sampler resumed = MakeSampler(20, Tail::kKeep, /*shuffle=*/true);
    position = saved;
    const Samples part = Draw(resumed, 3, batches, position);
    seen.insert(seen.end(), part.begin(), part.end());
  }
  EXPECT_THAT(seen, ElementsAreArray(Uninterrupted(sampler, 0)));
  EXPECT_THAT(seen, Not(ElementsAreArray(Uninterrupted(sampler, 1))));
  std::sort(seen.begin(), seen.end());
  Samples every(20);
  std::iota(every.begin(), every.end(), 0);
  EXPECT_EQ(seen, every);
}

TEST(Sampler, ResizedFromFourRanksToTwoTheOrderIsThatOfOneRun) {
  for (Tail tail : {Tail::kKeep, Tail::kDrop}) {
    const Sampler sampler = MakeSampler(20, tail, /*shuffle=*/true);
    SamplePosition position;
    Samples seen = Draw(sampler, 4 * 3, 1, position);
    // With the larger batch the epoch might be over; the smaller one finds more of it.
    const Samples rest = Draw(sampler, 2 * 3, tail == Tail::kKeep ? 2 : 1, position);
    seen.insert(seen.end(), rest.begin(), rest.end());
    Samples expected = Uninterrupted(sampler, 0);
    if (tail == Tail::kDrop) expected.resize(18);
    EXPECT_EQ(seen, expected);
    EXPECT_EQ(sampler.Normalized(6, position), (SamplePosition{1, 0}));
  }
}

TEST(Sampler, EveryEpochHasAnotherOrder) {
  const Sampler sampler = MakeSampler(20, Tail::kKeep, /*shuffle=*/true);
  for (int64_t epoch = 0; epoch < 10; ++epoch) {
    EXPECT_NE(Uninterrupted(sampler, epoch), Uninterrupted(sampler, epoch + 1));
  }
  EXPECT_EQ(Uninterrupted(MakeSampler(20, Tail::kKeep), 3), Uninterrupted(MakeSampler(20, Tail::kKeep), 4));
}

TEST(Sampler, SharesCoverTheBatchAndDifferByOneAtMost) {
  for (int64_t size : {0, 1, 5, 8, 13}) {
    for (int64_t ranks : {1, 2, 3, 8}) {
      int64_t next = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const RankShare share = ShareOfRank(size, rank, ranks);
        EXPECT_EQ(share.begin, next);
        EXPECT_GE(share.end - share.begin, size / ranks);
        EXPECT_LE(share.end - share.begin, (size + ranks - 1) / ranks);
        next = share.end;
      }
      EXPECT_EQ(next, size);
    }
  }
}

TEST(Sampler, NoSamplesIsAnError) {
  EXPECT_THAT(Sampler::Create({}), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace armature
