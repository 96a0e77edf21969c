#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "armature/base/status_macros.h"
#include "armature/comm/nccl/nccl_error.h"
#include "armature/comm/nccl/nccl_group.h"
#include "armature/comm/nccl/nccl_launch.h"

namespace armature {
namespace comm {
namespace {

constexpr absl::Duration kStoreInterval = absl::Milliseconds(100);
constexpr absl::Duration kPause = absl::Microseconds(20);

// Makes the rank's GPU the calling thread's for a scope.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess) before_ = device;
    if (before_ != device) cudaSetDevice(device);
    changed_ = before_ != device;
  }
  ~DeviceScope() {
    if (changed_) cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

// A group's NCCL handle and its failure. Shared with the Works, which may outlive the communicator.
class NcclState {
 public:
  NcclState(std::shared_ptr<Store> store, int rank, int size, const NcclOptions& options)
      : store_(std::move(store)), rank_(rank), size_(size), options_(options) {}

  ~NcclState() {
    DeviceScope scope(options_.device);
    if (comm_ != nullptr) ncclCommAbort(comm_);  // never waits for peers; finished work is not affected
    if (barrier_word_ != nullptr) cudaFree(barrier_word_);
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Init();

  // Runs `launch` between the compute stream's work so far and that to come; `done` is recorded after it.
  template <class Launch>
  absl::Status Enqueue(Launch&& launch, cudaEvent_t done);
  absl::Status Await(cudaEvent_t done, absl::Time deadline, absl::string_view doing);

  void Fail(const absl::Status& why, bool tell);
  absl::Status failure() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return failure_;
  }

  void* barrier_word() const { return barrier_word_; }
  Store& store() const { return *store_; }
  const std::shared_ptr<Store>& shared_store() const { return store_; }
  const NcclOptions& options() const { return options_; }
  cudaStream_t compute_stream() const { return static_cast<cudaStream_t>(options_.compute_stream); }

 private:
  absl::StatusOr<ncclUniqueId> ShareUniqueId(absl::Time deadline);
  absl::Status AwaitProgress(std::unique_lock<std::mutex>& lock, absl::Time deadline);
  absl::Status LookAtStore();
  absl::Status Late(absl::string_view doing);

  const std::shared_ptr<Store> store_;
  const int rank_, size_;
  const NcclOptions options_;
  mutable std::mutex mutex_;  // NCCL's handle is not thread-safe
  absl::Status failure_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  void* barrier_word_ = nullptr;
};

absl::StatusOr<ncclUniqueId> NcclState::ShareUniqueId(absl::Time deadline) {
  ncclUniqueId id = {};
  if (rank_ == 0) {
    ARMATURE_RETURN_IF_ERROR(NcclStatus(ncclGetUniqueId(&id), "make a unique id"));
    ARMATURE_RETURN_IF_ERROR(store_->Set("nccl", absl::string_view(id.internal, sizeof(id.internal))));
    return id;
  }
  ARMATURE_ASSIGN_OR_RETURN(std::string bytes, store_->Get("nccl", deadline), "rank 0 did not come");
  if (bytes.size() != sizeof(id.internal))
    return absl::UnavailableError("rank 0 left an id of the wrong size");
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

// Gives the lock away between looks, so that Abort gets through.
absl::Status NcclState::AwaitProgress(std::unique_lock<std::mutex>& lock, absl::Time deadline) {
  for (;;) {
    ARMATURE_RETURN_IF_ERROR(failure_);
    ncclResult_t result = ncclSuccess;
    ARMATURE_RETURN_IF_ERROR(NcclStatus(ncclCommGetAsyncError(comm_, &result), "ask for progress"));
    if (result != ncclInProgress) return NcclStatus(result, "connect");
    lock.unlock();
    const bool late = absl::Now() > deadline;
    const absl::Status why = late ? Late("connect") : absl::OkStatus();
    if (!late) absl::SleepFor(kPause);
    lock.lock();
    if (late) return why;
  }
}

absl::Status NcclState::Init() {
  const absl::Time deadline = absl::Now() + options_.group.timeout;
  int devices = 0;
  ARMATURE_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&devices), "count GPUs"));
  if (options_.device < 0 || options_.device >= devices) {
    return absl::InvalidArgumentError(absl::StrCat("device ", options_.device, " of ", devices));
  }
  DeviceScope scope(options_.device);
  ARMATURE_ASSIGN_OR_RETURN(ncclUniqueId id, ShareUniqueId(deadline));
  ARMATURE_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream"));
  ARMATURE_RETURN_IF_ERROR(CudaStatus(cudaMalloc(&barrier_word_, 1), "allocate"));
  ARMATURE_RETURN_IF_ERROR(CudaStatus(cudaMemset(barrier_word_, 0, 1), "clear"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  std::unique_lock<std::mutex> lock(mutex_);
  ARMATURE_RETURN_IF_ERROR(NcclStatus(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), "connect"));
  return AwaitProgress(lock, deadline);
}

template <class Launch>
absl::Status NcclState::Enqueue(Launch&& launch, cudaEvent_t done) {
  DeviceScope scope(options_.device);
  std::unique_lock<std::mutex> lock(mutex_);
  ARMATURE_RETURN_IF_ERROR(failure_);
  // `done` first marks the compute stream's place.
  ARMATURE_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(done, compute_stream()), "record"));
  ARMATURE_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(stream_, done, 0), "wait for the compute stream"));
  ARMATURE_RETURN_IF_ERROR(launch(NcclTarget{comm_, stream_, rank_, size_}));
  // A non-blocking communicator may still be at the launch: the event must come after it.
  ARMATURE_RETURN_IF_ERROR(AwaitProgress(lock, absl::Now() + options_.group.timeout));
  return CudaStatus(cudaEventRecord(done, stream_), "record");
}

absl::Status NcclState::Await(cudaEvent_t done, absl::Time deadline, absl::string_view doing) {
  DeviceScope scope(options_.device);
  deadline = std::min(deadline, absl::Now() + options_.group.timeout);
  absl::Time next_look = absl::Now() + kStoreInterval;
  for (;;) {
    ARMATURE_RETURN_IF_ERROR(failure());
    const cudaError_t state = cudaEventQuery(done);
    if (state == cudaSuccess) return CudaStatus(cudaStreamWaitEvent(compute_stream(), done, 0), "order");
    if (state != cudaErrorNotReady) return CudaStatus(state, doing);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      ncclResult_t result = ncclSuccess;
      if (comm_ != nullptr && ncclCommGetAsyncError(comm_, &result) == ncclSuccess) {
        ARMATURE_RETURN_IF_ERROR(NcclStatus(result, doing));
      }
    }
    if (absl::Now() > deadline) return Late(doing);
    if (absl::Now() > next_look) {
      ARMATURE_RETURN_IF_ERROR(LookAtStore());
      next_look = absl::Now() + kStoreInterval;
    }
    absl::SleepFor(kPause);
  }
}

// A failed rank leaves its code and text.
absl::Status NcclState::LookAtStore() {
  absl::StatusOr<std::string> left = store_->Get("failure", absl::InfinitePast());
  if (!left.ok()) return absl::OkStatus();
  const std::pair<std::string, std::string> parts = absl::StrSplit(*left, absl::MaxSplits(' ', 1));
  int code = 0;
  if (!absl::SimpleAtoi(parts.first, &code) || code == 0) code = static_cast<int>(absl::StatusCode::kUnknown);
  Fail(absl::Status(static_cast<absl::StatusCode>(code), parts.second), /*tell=*/false);
  return failure();
}

// NCCL does not know whom it waits for: ranks that wait report to the store, and those that don't are named.
absl::Status NcclState::Late(absl::string_view doing) {
  store_->Set(absl::StrCat("late/", rank_), "").IgnoreError();
  const absl::Time limit = absl::Now() + absl::Milliseconds(500);
  std::vector<int> silent;
  for (int peer = 0; peer < size_; ++peer) {
    if (peer != rank_ && !store_->Get(absl::StrCat("late/", peer), limit).ok()) silent.push_back(peer);
  }
  return absl::DeadlineExceededError(
      absl::StrCat(doing, " did not end in time; ",
                   silent.empty() ? "all ranks wait"
                                  : absl::StrCat("ranks that do not wait: ", absl::StrJoin(silent, ", "))));
}

void NcclState::Fail(const absl::Status& why, bool tell) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = why;
    DeviceScope scope(options_.device);
    if (comm_ != nullptr) ncclCommAbort(std::exchange(comm_, nullptr));
  }
  if (!tell) return;
  store_->Set("failure", absl::StrCat(static_cast<int>(why.code()), " ", why.message())).IgnoreError();
}

class NcclWork final : public PendingWork {
 public:
  NcclWork(std::shared_ptr<NcclState> state, std::string doing)
      : state_(std::move(state)), doing_(std::move(doing)) {
    DeviceScope scope(state_->options().device);
    result_ = CudaStatus(cudaEventCreateWithFlags(&done_, cudaEventDisableTiming), "make an event");
  }
  ~NcclWork() override {
    DeviceScope scope(state_->options().device);
    if (done_ != nullptr) cudaEventDestroy(done_);
  }

  template <class Launch>
  void Enqueue(Launch&& launch) {
    if (result_.ok()) result_ = state_->Enqueue(std::forward<Launch>(launch), done_);
  }

  void Start() override {}
  bool done() override {
    DeviceScope scope(state_->options().device);
    return !result_.ok() || cudaEventQuery(done_) != cudaErrorNotReady || !state_->failure().ok();
  }
  absl::Status Wait(absl::Time deadline) override {
    absl::Status status = result_.ok() ? state_->Await(done_, deadline, doing_) : result_;
    if (status.ok() || status.code() == absl::StatusCode::kInvalidArgument) return status;
    state_->Fail(AddContext(std::move(status), state_->options().group.name), /*tell=*/true);
    return state_->failure();
  }

 private:
  const std::shared_ptr<NcclState> state_;
  const std::string doing_;
  cudaEvent_t done_ = nullptr;
  absl::Status result_;
};

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<NcclState> state, int rank, int size)
      : state_(std::move(state)), rank_(rank), size_(size) {}
  ~NcclCommunicator() override {
    state_->Fail(absl::CancelledError(absl::StrCat(name(), ": rank ", rank_, " destroyed its communicator")),
                 /*tell=*/false);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  absl::string_view name() const override { return state_->options().group.name; }

  Work AllReduce(BufferView data, ReduceOp op) override { return Launch(MakeAllReduce(data, op)); }
  Work Reduce(BufferView in, BufferView out, ReduceOp op, int root) override {
    return Launch(MakeReduce(in, rank_ == root ? out : BufferView(), op, root, rank_, size_));
  }
  Work ReduceScatter(BufferView in, BufferView out, ReduceOp op) override {
    return Launch(MakeReduceScatter(in, out, op, rank_, size_));
  }
  Work ReduceScatterV(BufferView in, BufferView out, absl::Span<const int64_t> counts, ReduceOp op) override {
    return Launch(MakeReduceScatterV(in, out, counts, op, rank_, size_));
  }
  Work AllGather(BufferView in, BufferView out) override {
    return Launch(MakeAllGather(in, out, rank_, size_));
  }
  Work AllGatherV(BufferView in, BufferView out, absl::Span<const int64_t> counts) override {
    return Launch(MakeAllGatherV(in, out, counts, rank_, size_));
  }
  Work AllToAll(BufferView in, BufferView out) override { return Launch(MakeAllToAll(in, out, size_)); }
  Work AllToAllV(BufferView in, absl::Span<const int64_t> in_counts, BufferView out,
                 absl::Span<const int64_t> out_counts) override {
    return Launch(MakeAllToAllV(in, in_counts, out, out_counts, size_));
  }
  Work Broadcast(BufferView data, int root) override { return Launch(MakeBroadcast(data, root, size_)); }
  Work Gather(BufferView in, BufferView out, int root) override {
    return Launch(MakeGather(in, rank_ == root ? out : BufferView(), root, rank_, size_));
  }
  Work Scatter(BufferView in, BufferView out, int root) override {
    return Launch(MakeScatter(rank_ == root ? in : BufferView(), out, root, rank_, size_));
  }

  Work Group(absl::Span<const PointToPoint> transfers) override {
    for (const PointToPoint& transfer : transfers) {
      if (transfer.peer >= 0 && transfer.peer < size_ && transfer.data.count >= 0) continue;
      return Work(absl::InvalidArgumentError(absl::StrCat(name(), ": a message of ", transfer.data.count,
                                                          " elements with peer ", transfer.peer)));
    }
    return Submit("messages", [&](const NcclTarget& target) { return LaunchMessages(transfers, target); });
  }

  absl::Status Barrier(absl::Time deadline) override {
    return Launch(MakeAllReduce({state_->barrier_word(), 1, DType::kU8, {Device::Kind::kCuda, 0}},
                                ReduceOp::kMax))
        .Wait(deadline);
  }

  void Abort(absl::Status why) override {
    if (why.ok()) why = absl::UnknownError("no reason given");
    state_->Fail(
        absl::CancelledError(absl::StrCat(name(), ": rank ", rank_, " aborted the group: ", why.ToString())),
        /*tell=*/true);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Split(int color, int key, absl::string_view name) override;
  absl::StatusOr<std::unique_ptr<Communicator>> Shrink(absl::Span<const int> lost_ranks) override;
  // NCCL does not tell what it moves.
  Traffic traffic() const override { return Traffic(); }

 private:
  template <class Launch>
  Work Submit(absl::string_view doing, Launch&& launch) {
    auto work = std::make_shared<NcclWork>(state_, std::string(doing));
    work->Enqueue(std::forward<Launch>(launch));
    return Work(std::move(work));
  }

  // Wrong arguments of this rank fail here only, and the peers at their deadline: the caller should Abort.
  Work Launch(const Operation& operation) {
    if (!operation.argument_error.ok()) return Work(AddContext(operation.argument_error, name()));
    return Submit(Name(operation.verb),
                  [&](const NcclTarget& target) { return LaunchCollective(operation, target); });
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(absl::string_view tag, int rank, int size,
                                                        std::string name) {
    NcclOptions options = state_->options();
    options.group.name = std::move(name);
    return ConnectNccl(WithPrefix(state_->shared_store(), absl::StrCat(tag, "/")), rank, size, options);
  }

  const std::shared_ptr<NcclState> state_;
  const int rank_, size_;
  int64_t splits_ = 0;
};

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Split(int color, int key,
                                                                      absl::string_view name) {
  ARMATURE_RETURN_IF_ERROR(state_->failure());
  const std::string round = absl::StrCat("split", splits_++);
  const absl::Time deadline = absl::Now() + state_->options().group.timeout;
  ARMATURE_RETURN_IF_ERROR(
      state_->store().Set(absl::StrCat(round, "/", rank_), absl::StrCat(color, " ", key)));
  std::vector<std::pair<int, int>> members;  // key and rank
  for (int peer = 0; peer < size_; ++peer) {
    ARMATURE_ASSIGN_OR_RETURN(std::string text, state_->store().Get(absl::StrCat(round, "/", peer), deadline),
                              this->name(), ": rank ", peer, " did not split");
    const std::pair<std::string, std::string> parts = absl::StrSplit(text, ' ');
    int peer_color = 0, peer_key = 0;
    if (!absl::SimpleAtoi(parts.first, &peer_color) || !absl::SimpleAtoi(parts.second, &peer_key)) {
      return absl::InternalError(absl::StrCat(this->name(), ": rank ", peer, " split by \"", text, "\""));
    }
    if (peer_color == color) members.emplace_back(peer_key, peer);
  }
  if (color < 0) return nullptr;
  std::sort(members.begin(), members.end());
  const auto place = std::find(members.begin(), members.end(), std::make_pair(key, rank_));
  const std::string tag = absl::StrCat(round, ".", color);
  return Connect(tag, static_cast<int>(place - members.begin()), static_cast<int>(members.size()),
                 name.empty() ? absl::StrCat(this->name(), "/", tag) : std::string(name));
}

absl::StatusOr<std::unique_ptr<Communicator>> NcclCommunicator::Shrink(absl::Span<const int> lost_ranks) {
  std::vector<int> lost(lost_ranks.begin(), lost_ranks.end());
  std::sort(lost.begin(), lost.end());
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  const bool own = std::binary_search(lost.begin(), lost.end(), rank_);
  if (own || (!lost.empty() && (lost.front() < 0 || lost.back() >= size_))) {
    return absl::InvalidArgumentError(
        absl::StrCat(name(), ": rank ", rank_, " can't go on without [", absl::StrJoin(lost, ", "), "]"));
  }
  const int before = static_cast<int>(std::lower_bound(lost.begin(), lost.end(), rank_) - lost.begin());
  const std::string tag = absl::StrCat("without ", absl::StrJoin(lost, ","));
  return Connect(tag, rank_ - before, size_ - static_cast<int>(lost.size()), absl::StrCat(name(), " ", tag));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Communicator>> ConnectNccl(std::shared_ptr<Store> store, int rank, int size,
                                                          const NcclOptions& options) {
  if (size < 1 || rank < 0 || rank >= size) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.group.name, ": rank ", rank, " of a group of ", size));
  }
  auto state = std::make_shared<NcclState>(std::move(store), rank, size, options);
  ARMATURE_RETURN_IF_ERROR(state->Init(), options.group.name);
  return std::make_unique<NcclCommunicator>(std::move(state), rank, size);
}

}  // namespace comm
}  // namespace armature
