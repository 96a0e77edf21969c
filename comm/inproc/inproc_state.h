// InprocState: what the threads of one group share.
#ifndef ARMATURE_COMM_INPROC_INPROC_STATE_H_
#define ARMATURE_COMM_INPROC_INPROC_STATE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "armature/comm/header.h"
#include "armature/comm/inproc/mailboxes.h"
#include "armature/comm/lockstep.h"
#include "armature/comm/operation.h"

namespace armature {
namespace comm {

// What one rank shows its peers about a collective. Two are used in turns: a rank can be at most one
// collective ahead of a peer that still reads.
struct alignas(64) ShownCall {
  Header header;
  const Operation* operation = nullptr;
  std::vector<int64_t> sends, receives;  // of uneven operations
};

struct alignas(64) Presence {
  std::atomic<bool> inside{false};  // reads or writes peers' buffers
};

struct InprocState {
  explicit InprocState(int size) : words(size), presence(size), calls(size), mail(size) {}

  std::vector<StepWord> words;
  FailureRecord failure;
  std::vector<Presence> presence;
  std::vector<std::array<ShownCall, 2>> calls;
  Mailboxes mail;

  // Groups in the making, by tag: the first member makes one, the last takes it off the list.
  struct Forming {
    std::shared_ptr<InprocState> state;
    int missing = 0;
  };
  std::mutex forming_mutex;
  std::map<std::string, Forming> forming;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_INPROC_INPROC_STATE_H_
