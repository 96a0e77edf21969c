// ConnectAll: tests that make every rank of a group of processes in one process, each on a thread of its own.
#ifndef ARMATURE_COMM_CONNECT_ALL_H_
#define ARMATURE_COMM_CONNECT_ALL_H_

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "armature/comm/on_ranks.h"
#include "armature/comm/store.h"

namespace armature {
namespace comm {

// The ranks, which met through one store in memory, or the first error.
inline absl::StatusOr<RankList> ConnectAll(
    int size,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Communicator>>(std::shared_ptr<Store> store, int rank)>
        connect) {
  std::shared_ptr<Store> store = MakeInprocStore();
  RankList ranks(size);
  std::vector<absl::Status> results(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      absl::StatusOr<std::unique_ptr<Communicator>> made = connect(store, rank);
      results[rank] = made.status();
      if (made.ok()) ranks[rank] = *std::move(made);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) {
    if (!result.ok()) return result;
  }
  return ranks;
}

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_CONNECT_ALL_H_
