// Mailboxes: messages between the threads of a group. A sender leaves its buffer's address and waits until
// the receiver has copied from it.
#ifndef ARMATURE_COMM_INPROC_MAILBOXES_H_
#define ARMATURE_COMM_INPROC_MAILBOXES_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "armature/tensor/buffer.h"

namespace armature {
namespace comm {

// Thread-safe; one for a group.
class Mailboxes {
 public:
  struct Message {
    enum class State { kOffered, kTaken, kDone };
    BufferView data;
    BufferView place;  // where it was received
    State state = State::kOffered;
  };

  explicit Mailboxes(int size) : left_(size, false) {}

  // Never waits.
  std::shared_ptr<Message> Offer(int from, int to, const BufferView& data);
  // Which message from `from` to `to` the next Take of this place in line gets.
  int64_t NextReceive(int from, int to);

  // Waits for message `number` and copies it into `data`.
  // Errors: InvalidArgument on both sides if count or dtype differ; DeadlineExceeded, Unavailable naming
  // `from`.
  absl::Status Take(int from, int to, int64_t number, const BufferView& data, absl::Time deadline);
  // Waits until `message`, offered by `from` to `to`, was taken. On an error it is withdrawn: nobody reads
  // its buffer any more.
  absl::Status AwaitTaken(Message& message, int from, int to, absl::Time deadline);

  // Nobody reads the buffer of `message` any more. A message that nobody took fails the mailboxes.
  void Withdraw(Message& message);

  // Wakes all with `why`.
  void Fail(const absl::Status& why);
  // Wakes those who wait for `rank` with Unavailable.
  void Leave(int rank);

 private:
  struct Box {
    std::deque<std::shared_ptr<Message>> offered;
    int64_t taken = 0;  // number of the first in `offered`
    int64_t receives = 0;
  };

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, Box> boxes_;
  std::vector<bool> left_;
  absl::Status failure_;
};

}  // namespace comm
}  // namespace armature

#endif  // ARMATURE_COMM_INPROC_MAILBOXES_H_
