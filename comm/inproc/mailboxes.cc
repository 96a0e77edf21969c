#include "armature/comm/inproc/mailboxes.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace armature {
namespace comm {
namespace {

absl::Status CheckSame(int from, int to, const BufferView& sent, const BufferView& received) {
  if (sent.count == received.count && sent.dtype == received.dtype) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("ranks disagree: rank ", from, " sends ", sent.count, " ",
                                                 Name(sent.dtype), ", rank ", to, " receives ",
                                                 received.count, " ", Name(received.dtype)));
}

}  // namespace

std::shared_ptr<Mailboxes::Message> Mailboxes::Offer(int from, int to, const BufferView& data) {
  auto message = std::make_shared<Message>();
  message->data = data;
  absl::MutexLock lock(&mutex_);
  boxes_[{from, to}].offered.push_back(message);
  changed_.SignalAll();
  return message;
}

int64_t Mailboxes::NextReceive(int from, int to) {
  absl::MutexLock lock(&mutex_);
  return boxes_[{from, to}].receives++;
}

absl::Status Mailboxes::Take(int from, int to, int64_t number, const BufferView& data, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  Box& box = boxes_[{from, to}];
  while (box.taken != number || box.offered.empty()) {
    if (!failure_.ok()) return failure_;
    if (left_[from])
      return absl::UnavailableError(absl::StrCat("receive: rank ", from, " has left the group"));
    if (changed_.WaitWithDeadline(&mutex_, deadline) && (box.taken != number || box.offered.empty())) {
      return absl::DeadlineExceededError(absl::StrCat("receive: rank ", from, " did not send in time"));
    }
  }
  if (!failure_.ok()) return failure_;
  const std::shared_ptr<Message> message = std::move(box.offered.front());
  box.offered.pop_front();
  ++box.taken;
  message->result = CheckSame(from, to, message->data, data);
  if (message->result.ok() && data.count > 0) {
    message->state = Message::State::kTaken;
    mutex_.Unlock();
    std::memcpy(data.data, message->data.data, static_cast<size_t>(data.size_bytes()));
    mutex_.Lock();
  }
  message->state = Message::State::kDone;
  changed_.SignalAll();
  return message->result;
}

absl::Status Mailboxes::AwaitTaken(Message& message, int to, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  while (message.state != Message::State::kDone) {
    if (message.state == Message::State::kTaken) {
      changed_.Wait(&mutex_);  // a copy under way ends soon
    } else if (!failure_.ok()) {
      return failure_;  // Take gives no message out any more
    } else if (left_[to]) {
      return absl::UnavailableError(absl::StrCat("send: rank ", to, " has left the group"));
    } else if (changed_.WaitWithDeadline(&mutex_, deadline) && message.state == Message::State::kOffered) {
      failure_ = absl::DeadlineExceededError(absl::StrCat("send: rank ", to, " did not receive in time"));
      changed_.SignalAll();
    }
  }
  return message.result;
}

void Mailboxes::Withdraw(Message& message) {
  absl::MutexLock lock(&mutex_);
  while (message.state == Message::State::kTaken) changed_.Wait(&mutex_);
  if (message.state == Message::State::kDone || !failure_.ok()) return;
  failure_ = absl::CancelledError("a message was withdrawn by its sender");
  changed_.SignalAll();
}

void Mailboxes::Fail(const absl::Status& why) {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok()) failure_ = why;
  changed_.SignalAll();
}

void Mailboxes::Leave(int rank) {
  absl::MutexLock lock(&mutex_);
  left_[rank] = true;
  changed_.SignalAll();
}

}  // namespace comm
}  // namespace armature
