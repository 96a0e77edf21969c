#include "armature/comm/gloo/gloo_transport.h"

#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "armature/base/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/gloo/no_sigpipe.h"

namespace armature {
namespace comm {
namespace {

using Buffer = gloo::transport::UnboundBuffer;

constexpr uint64_t kNoteSlot = uint64_t{1} << 60;
// Gloo adds it to the clock: large, and far from overflow.
constexpr std::chrono::milliseconds kNever = std::chrono::hours(24 * 365);
constexpr std::chrono::milliseconds kNoteTime(100);
constexpr absl::Duration kNoteReadTime = absl::Milliseconds(100);

// What a failing rank tells its peers.
struct Note {
  int32_t code;
  char message[508];
};

Note MakeNote(const absl::Status& why) {
  Note note = {static_cast<int32_t>(why.code()), {}};
  std::memcpy(note.message, why.message().data(), std::min(why.message().size(), sizeof(note.message) - 1));
  return note;
}

// Every call of Gloo goes through here: true if it threw.
template <class Call>
bool Caught(Call&& call) {
  const NoSigpipe no_signal;
  try {
    call();
    return false;
  } catch (const std::exception&) {
    return true;
  }
}

}  // namespace

struct GlooTransport::Flight::Part {
  Packet::Direction direction;
  int peer;
  std::unique_ptr<Buffer> buffer;
};

GlooTransport::Flight::Flight() = default;
GlooTransport::Flight::Flight(Flight&&) noexcept = default;
GlooTransport::Flight::~Flight() = default;

class GlooTransport::Impl {
 public:
  Impl(int rank, int size) : rank_(rank), size_(size), notes_in_(size), lost_(size) {}

  ~Impl() {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      closing_ = true;
      changed_.notify_all();
      if (!note_in_buffers_.empty()) note_in_buffers_.back()->abortWaitRecv();
    }
    if (listener_.joinable()) listener_.join();
    if (alarm_.joinable()) alarm_.join();
    // Peers should read why this rank failed before they read that it is gone.
    for (int sent = 0; sent < notes_sent_ && !Caught([&] { note_out_buffer_->waitSend(kNoteTime); }); ++sent)
      continue;
    const NoSigpipe no_signal;
    note_in_buffers_.clear();
    note_out_buffer_ = nullptr;
    context_ = nullptr;
    device_ = nullptr;
  }

  absl::Status Connect(Store& store, const std::string& address, absl::Time deadline);
  absl::Status Post(absl::Span<const Packet> packets, uint64_t slot, Flight& flight);
  absl::Status Wait(Flight& flight, absl::Time deadline);
  absl::StatusOr<int> ReceiveFromAny(Region region, uint64_t slot, absl::Span<const int> awaited,
                                     absl::Time deadline);
  void Fail(const absl::Status& why, bool tell);

  absl::Status failure() const {
    std::unique_lock<std::mutex> lock(mutex_);
    return failure_;
  }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  // A wait in progress, which the alarm, a note, a lost peer or Fail ends early.
  struct Waiter {
    Buffer* buffer;
    absl::Time deadline;
    absl::Span<const int> awaited;  // peers whose loss Gloo would not notice here
    bool late = false;
  };
  enum class Outcome { kDone, kEnded, kLost };

  absl::Status ConnectPairs(Store& store, absl::Time deadline);
  absl::Status AwaitAllConnected(Store& store, absl::Status mine, absl::Time deadline);
  absl::Status WhyLost(int peer);
  Outcome AwaitBuffer(Waiter waiter, Packet::Direction direction, int* source);
  void Interrupt(Waiter& waiter) {
    waiter.buffer->abortWaitRecv();
    waiter.buffer->abortWaitSend();
  }
  bool ListenOnLivePeers();
  void ListenForNotes();
  int LostOf(absl::Span<const int> peers) const;
  void WatchDeadlines();
  std::vector<int> Peers() const;

  const int rank_, size_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;
  std::vector<Note> notes_in_;
  Note note_out_ = {};
  int notes_sent_ = 0;  // to different peers
  std::unique_ptr<Buffer> note_out_buffer_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Buffer>> note_in_buffers_;  // the last one is waited on
  absl::Status failure_;
  std::vector<bool> lost_;
  std::set<Waiter*> waiters_;
  bool closing_ = false;
  std::thread listener_, alarm_;
};

std::vector<int> GlooTransport::Impl::Peers() const {
  std::vector<int> peers;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_) peers.push_back(peer);
  }
  return peers;
}

absl::Status GlooTransport::Impl::Connect(Store& store, const std::string& address, absl::Time deadline) {
  gloo::transport::tcp::attr attributes(address.c_str());
  const bool unusable = Caught([&] {
    device_ = gloo::transport::tcp::CreateDevice(attributes);
    context_ = device_->createContext(rank_, size_);
  });
  if (unusable) {
    const std::string why = absl::StrCat("rank ", rank_, " can't listen on ", address);
    ARMATURE_RETURN_IF_ERROR(store.Set(absl::StrCat("address/", rank_), absl::StrCat("!", why)));
    return absl::UnavailableError(why);
  }
  ARMATURE_RETURN_IF_ERROR(AwaitAllConnected(store, ConnectPairs(store, deadline), deadline));
  if (size_ == 1) return absl::OkStatus();
  note_out_buffer_ = context_->createUnboundBuffer(&note_out_, sizeof(note_out_));
  listener_ = std::thread([this] { ListenForNotes(); });
  alarm_ = std::thread([this] { WatchDeadlines(); });
  return absl::OkStatus();
}

// From here on a rank that fails can tell the others why.
absl::Status GlooTransport::Impl::AwaitAllConnected(Store& store, absl::Status mine, absl::Time deadline) {
  ARMATURE_RETURN_IF_ERROR(store.Set(absl::StrCat("connected/", rank_), mine.message()));
  ARMATURE_RETURN_IF_ERROR(mine);
  for (int peer : Peers()) {
    ARMATURE_ASSIGN_OR_RETURN(std::string problem, store.Get(absl::StrCat("connected/", peer), deadline),
                              "rank ", peer, " did not connect");
    if (!problem.empty()) return absl::UnavailableError(problem);
  }
  return absl::OkStatus();
}

// Each pair of ranks has a connection; a rank listens on one address for each peer.
absl::Status GlooTransport::Impl::ConnectPairs(Store& store, absl::Time deadline) {
  const double left = absl::ToDoubleMilliseconds(std::max(deadline - absl::Now(), absl::Milliseconds(5)));
  // Gloo waits five times as long for a connection.
  context_->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(std::min(left / 5, 1e9)) + 1));
  std::string addresses;
  size_t address_bytes = 0;
  for (int peer = 0; peer < size_; ++peer) {
    std::vector<char> bytes;
    const bool failed = Caught([&] { bytes = context_->createPair(peer)->address().bytes(); });
    if (failed) return absl::UnavailableError(absl::StrCat("rank ", rank_, " has no socket for rank ", peer));
    addresses.append(bytes.data(), bytes.size());
    address_bytes = bytes.size();
  }
  ARMATURE_RETURN_IF_ERROR(store.Set(absl::StrCat("address/", rank_), absl::StrCat("=", addresses)));
  for (int peer : Peers()) {
    ARMATURE_ASSIGN_OR_RETURN(std::string theirs, store.Get(absl::StrCat("address/", peer), deadline),
                              "rank ", peer, " did not come");
    if (theirs.size() != 1 + size_ * address_bytes) return absl::UnavailableError(theirs.substr(1));
    const char* const mine = theirs.data() + 1 + rank_ * address_bytes;
    const std::vector<char> bytes(mine, mine + address_bytes);
    if (Caught([&] { context_->getPair(peer)->connect(bytes); })) {
      return absl::UnavailableError(absl::StrCat("rank ", rank_, " can't connect to rank ", peer));
    }
  }
  return absl::OkStatus();
}

absl::Status GlooTransport::Impl::Post(absl::Span<const Packet> packets, uint64_t slot, Flight& flight) {
  for (const Packet& packet : packets) {
    if (packet.region.bytes == 0) continue;
    Flight::Part part = {packet.direction, packet.peer, nullptr};
    const bool lost = Caught([&] {
      part.buffer =
          context_->createUnboundBuffer(packet.region.data, static_cast<size_t>(packet.region.bytes));
      if (packet.direction == Packet::Direction::kSend) {
        part.buffer->send(packet.peer, slot);
      } else {
        part.buffer->recv(packet.peer, slot);
      }
    });
    flight.parts_.push_back(std::move(part));
    if (lost) return WhyLost(packet.peer);
  }
  return absl::OkStatus();
}

GlooTransport::Impl::Outcome GlooTransport::Impl::AwaitBuffer(Waiter waiter, Packet::Direction direction,
                                                              int* source) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_.ok() || LostOf(waiter.awaited) >= 0) return Outcome::kEnded;
    waiters_.insert(&waiter);
    changed_.notify_all();
  }
  bool done = false;
  const bool lost = Caught([&] {
    done = direction == Packet::Direction::kSend ? waiter.buffer->waitSend(source, kNever)
                                                 : waiter.buffer->waitRecv(source, kNever);
  });
  std::unique_lock<std::mutex> lock(mutex_);
  waiters_.erase(&waiter);
  return done ? Outcome::kDone : lost ? Outcome::kLost : Outcome::kEnded;
}

absl::Status GlooTransport::Impl::Wait(Flight& flight, absl::Time deadline) {
  for (Flight::Part& part : flight.parts_) {
    switch (AwaitBuffer({part.buffer.get(), deadline, {}}, part.direction, nullptr)) {
      case Outcome::kDone:
        continue;
      case Outcome::kLost:
        return WhyLost(part.peer);
      case Outcome::kEnded:
        ARMATURE_RETURN_IF_ERROR(failure());
        break;
    }
    return absl::DeadlineExceededError(absl::StrCat("rank ", part.peer, " did not take part in time"));
  }
  flight.parts_.clear();
  return absl::OkStatus();
}

// Gloo's own words say where in its source something failed, and not with whom.
// A peer that failed has sent a note before it went; it may be read a little later than the end of the
// connection.
absl::Status GlooTransport::Impl::WhyLost(int peer) {
  std::unique_lock<std::mutex> lock(mutex_);
  const absl::Time limit = absl::Now() + kNoteReadTime;
  while (failure_.ok() && RealClock().WaitUntil(changed_, lock, limit)) continue;
  ARMATURE_RETURN_IF_ERROR(failure_);
  return absl::UnavailableError(absl::StrCat("rank ", peer, " has closed its connection"));
}

absl::StatusOr<int> GlooTransport::Impl::ReceiveFromAny(Region region, uint64_t slot,
                                                        absl::Span<const int> awaited, absl::Time deadline) {
  std::unique_ptr<Buffer> buffer =
      context_->createUnboundBuffer(region.data, static_cast<size_t>(region.bytes));
  int source = -1;
  Outcome outcome = Outcome::kLost;
  if (!Caught([&] { buffer->recv(Peers(), slot); })) {
    outcome = AwaitBuffer({buffer.get(), deadline, awaited}, Packet::Direction::kReceive, &source);
  }
  if (outcome == Outcome::kDone) return source;
  ARMATURE_RETURN_IF_ERROR(failure());
  int lost = -1;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    lost = LostOf(awaited);
  }
  if (lost >= 0) return WhyLost(lost);
  const std::string ranks =
      absl::StrCat(awaited.size() == 1 ? "rank " : "ranks ", absl::StrJoin(awaited, ", "));
  return absl::DeadlineExceededError(absl::StrCat(ranks, " did not take part in time"));
}

void GlooTransport::Impl::Fail(const absl::Status& why, bool tell) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = why;
    changed_.notify_all();
    for (Waiter* waiter : waiters_) Interrupt(*waiter);
  }
  if (!tell || size_ == 1) return;
  note_out_ = MakeNote(why);  // written once: only the first failure comes here
  // A peer has listened anew for each rank that it has lost. One that is gone itself needs no note.
  for (int copy = 0; copy < size_; ++copy) {
    for (int peer : Peers()) Caught([&] { note_out_buffer_->send(peer, kNoteSlot); });
  }
}

// One buffer that waits for a note from each peer; Gloo also ends its wait, for good, when it loses one of
// them. Earlier buffers stay: notes may still arrive in them, which is why a note is sent several times.
bool GlooTransport::Impl::ListenOnLivePeers() {
  std::unique_lock<std::mutex> lock(mutex_);
  note_in_buffers_.push_back(
      context_->createUnboundBuffer(notes_in_.data(), notes_in_.size() * sizeof(Note)));
  Buffer& buffer = *note_in_buffers_.back();
  bool any = false;
  for (int peer : Peers()) {
    const size_t offset = static_cast<size_t>(peer) * sizeof(Note);
    if (!lost_[peer]) lost_[peer] = Caught([&] { buffer.recv(peer, kNoteSlot, offset, sizeof(Note)); });
    any = any || !lost_[peer];
  }
  for (Waiter* waiter : waiters_) {
    if (LostOf(waiter->awaited) >= 0) Interrupt(*waiter);
  }
  return any && !closing_;
}

void GlooTransport::Impl::ListenForNotes() {
  while (ListenOnLivePeers()) {
    int source = -1;
    bool got = false;
    if (Caught([&] { got = note_in_buffers_.back()->waitRecv(&source, kNever); }))
      continue;  // a peer was lost
    if (!got) return;
    Note& note = notes_in_[source];
    note.message[sizeof(note.message) - 1] = '\0';
    absl::Status why(static_cast<absl::StatusCode>(note.code), note.message);
    if (why.ok()) why = absl::UnknownError(absl::StrCat("rank ", source, " failed"));
    return Fail(why, /*tell=*/false);
  }
}

// The first of `peers` whose connection is gone, or -1. The mutex is held.
int GlooTransport::Impl::LostOf(absl::Span<const int> peers) const {
  const auto found = std::find_if(peers.begin(), peers.end(), [this](int peer) { return lost_[peer]; });
  return found == peers.end() ? -1 : *found;
}

void GlooTransport::Impl::WatchDeadlines() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!closing_) {
    absl::Time next = absl::InfiniteFuture();
    const absl::Time now = absl::Now();
    for (Waiter* waiter : waiters_) {
      if (waiter->late) continue;
      if (waiter->deadline <= now) {
        waiter->late = true;
        Interrupt(*waiter);
      } else {
        next = std::min(next, waiter->deadline);
      }
    }
    !RealClock().WaitUntil(changed_, lock, next);
  }
}

GlooTransport::GlooTransport(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GlooTransport::~GlooTransport() = default;

absl::StatusOr<std::unique_ptr<GlooTransport>> GlooTransport::Connect(Store& store, int rank, int size,
                                                                      const std::string& address,
                                                                      absl::Time deadline) {
  auto impl = std::make_unique<Impl>(rank, size);
  ARMATURE_RETURN_IF_ERROR(impl->Connect(store, address, deadline));
  return std::unique_ptr<GlooTransport>(new GlooTransport(std::move(impl)));
}

absl::Status GlooTransport::Post(absl::Span<const Packet> packets, uint64_t slot, Flight& flight) {
  return impl_->Post(packets, slot, flight);
}
absl::Status GlooTransport::Wait(Flight& flight, absl::Time deadline) {
  return impl_->Wait(flight, deadline);
}

absl::Status GlooTransport::Exchange(absl::Span<const Packet> packets, uint64_t slot, absl::Time deadline) {
  Flight flight;
  ARMATURE_RETURN_IF_ERROR(impl_->Post(packets, slot, flight));
  return impl_->Wait(flight, deadline);
}

absl::StatusOr<int> GlooTransport::ReceiveFromAny(Region region, uint64_t slot, absl::Span<const int> awaited,
                                                  absl::Time deadline) {
  return impl_->ReceiveFromAny(region, slot, awaited, deadline);
}

void GlooTransport::Fail(const absl::Status& why) { impl_->Fail(why, /*tell=*/true); }
absl::Status GlooTransport::failure() const { return impl_->failure(); }
int GlooTransport::rank() const { return impl_->rank(); }
int GlooTransport::size() const { return impl_->size(); }

}  // namespace comm
}  // namespace armature
