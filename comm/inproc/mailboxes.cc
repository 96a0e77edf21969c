#include "armature/comm/inproc/mailboxes.h"

#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"
#include "armature/base/clock.h"

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
  std::unique_lock<std::mutex> lock(mutex_);
  boxes_[{from, to}].offered.push_back(message);
  changed_.notify_all();
  return message;
}

int64_t Mailboxes::NextReceive(int from, int to) {
  std::unique_lock<std::mutex> lock(mutex_);
  return boxes_[{from, to}].receives++;
}

absl::Status Mailboxes::Take(int from, int to, int64_t number, const BufferView& data, absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  Box& box = boxes_[{from, to}];
  while (box.taken != number || box.offered.empty()) {
    if (!failure_.ok()) return failure_;
    if (left_[from])
      return absl::UnavailableError(absl::StrCat("receive: rank ", from, " has left the group"));
    if (!RealClock().WaitUntil(changed_, lock, deadline) && (box.taken != number || box.offered.empty())) {
      return absl::DeadlineExceededError(absl::StrCat("receive: rank ", from, " did not send in time"));
    }
  }
  if (!failure_.ok()) return failure_;
  const std::shared_ptr<Message> message = std::move(box.offered.front());
  box.offered.pop_front();
  ++box.taken;
  message->place = data;
  const absl::Status same = CheckSame(from, to, message->data, data);
  if (same.ok() && data.count > 0) {
    message->state = Message::State::kTaken;
    lock.unlock();
    std::memcpy(data.data, message->data.data, static_cast<size_t>(data.size_bytes()));
    lock.lock();
  }
  message->state = Message::State::kDone;
  changed_.notify_all();
  return same;
}

absl::Status Mailboxes::AwaitTaken(Message& message, int from, int to, absl::Time deadline) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (message.state != Message::State::kDone) {
    if (message.state == Message::State::kTaken) {
      changed_.wait(lock);  // a copy under way ends soon
    } else if (!failure_.ok()) {
      return failure_;  // Take gives no message out any more
    } else if (left_[to]) {
      return absl::UnavailableError(absl::StrCat("send: rank ", to, " has left the group"));
    } else if (!RealClock().WaitUntil(changed_, lock, deadline) &&
               message.state == Message::State::kOffered) {
      failure_ = absl::DeadlineExceededError(absl::StrCat("send: rank ", to, " did not receive in time"));
      changed_.notify_all();
    }
  }
  return CheckSame(from, to, message.data, message.place);
}

void Mailboxes::Withdraw(Message& message) {
  std::unique_lock<std::mutex> lock(mutex_);
  while (message.state == Message::State::kTaken) changed_.wait(lock);
  if (message.state == Message::State::kDone || !failure_.ok()) return;
  failure_ = absl::CancelledError("a message was withdrawn by its sender");
  changed_.notify_all();
}

void Mailboxes::Fail(const absl::Status& why) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (failure_.ok()) failure_ = why;
  changed_.notify_all();
}

void Mailboxes::Leave(int rank) {
  std::unique_lock<std::mutex> lock(mutex_);
  left_[rank] = true;
  changed_.notify_all();
}

}  // namespace comm
}  // namespace armature
