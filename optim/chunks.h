// Chunks: many arrays cut into chunks of fixed length, shared out over a team by bytes.
#ifndef ARMATURE_OPTIM_CHUNKS_H_
#define ARMATURE_OPTIM_CHUNKS_H_

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "armature/base/thread_team.h"

namespace armature {

// Elements [begin, end) of array number `array`.
struct Chunk {
  int64_t array = 0;
  int64_t index = 0;  // among the chunks of all arrays, in order
  int64_t begin = 0;
  int64_t end = 0;
};

// Arrays of given lengths, each cut from its start into chunks of kChunkElements (its last may be shorter).
// The cut depends on nothing else, so sums over chunks, added in the order of their indices, have the same
// bits for every team.
class Chunks {
 public:
  // 64 KiB of f32: AdamW's four streams of a chunk fit a second-level cache.
  static constexpr int64_t kChunkElements = 16384;

  explicit Chunks(absl::Span<const int64_t> lengths);

  // The number of all chunks.
  int64_t size() const { return first_chunk_.back(); }

  // The indices of an array's chunks: [first_chunk(array), first_chunk(array + 1)).
  int64_t first_chunk(int64_t array) const { return first_chunk_[array]; }

  // Calls body once for each chunk, on the threads of the team (null: the caller's) in shares of nearly equal
  // numbers of elements, so that many small arrays are balanced like a large one.
  void ForEach(ThreadTeam* threads, absl::FunctionRef<void(const Chunk&)> body) const;

 private:
  void ForEachThatStartsIn(int64_t begin, int64_t end, absl::FunctionRef<void(const Chunk&)> body) const;

  // Of each array and of the end: elements and chunks before it.
  std::vector<int64_t> first_element_;
  std::vector<int64_t> first_chunk_;
};

}  // namespace armature

#endif  // ARMATURE_OPTIM_CHUNKS_H_
