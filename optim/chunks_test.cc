#include "armature/optim/chunks.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace armature {
namespace {

constexpr int64_t kFull = Chunks::kChunkElements;

TEST(Chunks, CoverEachElementOnceInOrderOfIndexForEveryTeam) {
  const std::vector<int64_t> lengths = {0, 1, 3 * kFull + 5, 0, 7, kFull, 2 * kFull - 1, 1, 1, 0};
  const Chunks chunks(lengths);
  ASSERT_EQ(chunks.size(), 1 + 4 + 1 + 1 + 2 + 1 + 1);
  for (int size : {0, 1, 2, 3, 7}) {
    ThreadTeam team(size);
    std::mutex mutex;
    std::vector<Chunk> seen(chunks.size(), Chunk{-1, -1, 0, 0});
    chunks.ForEach(size == 0 ? nullptr : &team, [&](const Chunk& chunk) {
      std::lock_guard<std::mutex> lock(mutex);
      ASSERT_EQ(seen[chunk.index].array, -1) << "chunk " << chunk.index << " twice";
      seen[chunk.index] = chunk;
    });
    int64_t index = 0;
    for (size_t array = 0; array < lengths.size(); ++array) {
      EXPECT_EQ(chunks.first_chunk(array), index);
      for (int64_t begin = 0; begin < lengths[array]; begin += kFull, ++index) {
        EXPECT_EQ(seen[index].array, static_cast<int64_t>(array));
        EXPECT_EQ(seen[index].begin, begin);
        EXPECT_EQ(seen[index].end, std::min(lengths[array], begin + kFull));
      }
    }
  }
}

TEST(Chunks, SmallArraysAreSharedOutByElements) {
  // 1000 arrays of 100 elements after one of 100000: the second of two threads gets the small ones.
  std::vector<int64_t> lengths(1001, 100);
  lengths[0] = 100000;
  ThreadTeam team(2);
  std::mutex mutex;
  std::map<std::thread::id, int64_t> elements;
  Chunks(lengths).ForEach(&team, [&](const Chunk& chunk) {
    std::lock_guard<std::mutex> lock(mutex);
    elements[std::this_thread::get_id()] += chunk.end - chunk.begin;
  });
  ASSERT_EQ(elements.size(), 2u);
  for (const auto& share : elements) EXPECT_NEAR(share.second, 100000, kFull);
}

TEST(Chunks, NoElementsCallNothing) {
  ThreadTeam team(2);
  Chunks({}).ForEach(&team, [](const Chunk&) { ADD_FAILURE(); });
  Chunks({0, 0}).ForEach(&team, [](const Chunk&) { ADD_FAILURE(); });
  EXPECT_EQ(Chunks({}).size(), 0);
}

}  // namespace
}  // namespace armature
