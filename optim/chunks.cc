#include "armature/optim/chunks.h"

#include <algorithm>

namespace armature {

Chunks::Chunks(absl::Span<const int64_t> lengths) : first_element_(1, 0), first_chunk_(1, 0) {
  first_element_.reserve(lengths.size() + 1);
  first_chunk_.reserve(lengths.size() + 1);
  for (int64_t length : lengths) {
    first_element_.push_back(first_element_.back() + length);
    first_chunk_.push_back(first_chunk_.back() + (length + kChunkElements - 1) / kChunkElements);
  }
}

void Chunks::ForEach(ThreadTeam* threads, absl::FunctionRef<void(const Chunk&)> body) const {
  const int64_t count = first_element_.back();
  if (threads == nullptr) {
    ForEachThatStartsIn(0, count, body);
    return;
  }
  threads->ParallelFor(count, kChunkElements,
                       [&](int64_t begin, int64_t end) { ForEachThatStartsIn(begin, end, body); });
}

void Chunks::ForEachThatStartsIn(int64_t begin, int64_t end,
                                 absl::FunctionRef<void(const Chunk&)> body) const {
  // The last array that starts at or before `begin`.
  const auto after = std::upper_bound(first_element_.begin(), first_element_.end(), begin);
  const int64_t num_arrays = static_cast<int64_t>(first_element_.size()) - 1;
  for (int64_t array = (after - first_element_.begin()) - 1; array < num_arrays; ++array) {
    const int64_t start = first_element_[array], length = first_element_[array + 1] - start;
    if (start >= end) return;
    const int64_t skipped = std::max<int64_t>(begin - start + kChunkElements - 1, 0) / kChunkElements;
    for (int64_t i = skipped; i * kChunkElements < std::min(length, end - start); ++i) {
      body(Chunk{array, first_chunk_[array] + i, i * kChunkElements,
                 std::min(length, (i + 1) * kChunkElements)});
    }
  }
}

}  // namespace armature
