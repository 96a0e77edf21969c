#include "armature/comm/on_ranks.h"

#include <thread>

namespace armature {
namespace comm {

std::vector<absl::Status> OnRanks(const RankList& ranks,
                                  absl::FunctionRef<absl::Status(Communicator& comm)> body) {
  std::vector<absl::Status> results(ranks.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] { results[rank] = body(*ranks[rank]); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace comm
}  // namespace armature
