#include "armature/engine/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/cancellation.h"
#include "armature/base/posix_file_system.h"
#include "armature/base/status_macros.h"
#include "armature/checkpoint/checkpointer.h"
#include "armature/engine/optimizer_config.h"
#include "armature/engine/rank_thread.h"
#include "armature/engine/rank_worker.h"
#include "armature/engine/validate.h"
#include "armature/optim/clip.h"

namespace armature {
namespace {

int ThreadsPerRank(const EngineConfig& config) {
  if (config.threads() > 0) return config.threads();
  return std::max<int>(1, static_cast<int>(std::thread::hardware_concurrency()));
}

// The terms' losses: each sum divided once, by the targets of all microbatches and ranks.
std::vector<std::pair<std::string, double>> Losses(const Model& model, const std::vector<double>& sums,
                                                   const std::vector<int64_t>& counts) {
  std::vector<std::pair<std::string, double>> losses;
  for (size_t i = 0; i < model.losses.size(); ++i) {
    losses.emplace_back(model.losses[i].name, counts[i] > 0 ? sums[i] / static_cast<double>(counts[i]) : 0.0);
  }
  return losses;
}

double Total(const std::vector<std::pair<std::string, double>>& losses) {
  double total = 0;
  for (const auto& [name, loss] : losses) total += loss;
  return total;
}

}  // namespace

class Engine::Impl {
 public:
  enum class State { kReady, kRunning };

  Impl(const EngineConfig& config, Model model, Environment environment)
      : config_(config), model_(std::move(model)), environment_(std::move(environment)) {
    if (environment_.files == nullptr) environment_.files = &own_files_;
    if (environment_.clock == nullptr) environment_.clock = &own_clock_;
  }

  absl::Status Build();

  // Holds the engine in the running state: one call at a time, the others are refused.
  class Running {
   public:
    static absl::StatusOr<std::unique_ptr<Running>> Begin(Impl& impl, bool for_restore = false) {
      std::lock_guard<std::mutex> lock(impl.mutex_);
      if (impl.state_ == State::kRunning) {
        return absl::FailedPreconditionError("the engine is running another call");
      }
      if (!impl.failure_.ok() && !for_restore) return impl.failure_;
      impl.state_ = State::kRunning;
      impl.cancellation_ = std::make_unique<CancellationSource>();
      return std::unique_ptr<Running>(new Running(impl));
    }
    ~Running() {
      std::lock_guard<std::mutex> lock(impl_.mutex_);
      if (impl_.state_ == State::kRunning) impl_.state_ = State::kReady;
      impl_.left_running_.notify_all();
    }

   private:
    explicit Running(Impl& impl) : impl_(impl) {}
    Impl& impl_;
  };

  // Callers hold a Running.
  absl::StatusOr<StepResult> Step(const Batch& batch, const StepOptions& options);
  absl::StatusOr<EvalResult> Evaluate(BatchSource& source);
  absl::StatusOr<Array> Predict(const Batch& batch);
  absl::StatusOr<RunResult> Run(BatchSource& source, const RunOptions& options);
  absl::StatusOr<SaveHandle> Save(const BatchSource* source);
  absl::StatusOr<RestoreResult> Restore(BatchSource* source);
  absl::Status Export(const std::function<absl::Status(const NamedBuffer&)>& sink);
  absl::Status Import(absl::Span<const NamedBuffer> weights);

  // Any thread.
  void RequestStop() { stop_requested_.store(true); }
  void Cancel(absl::Status why) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (state_ == State::kRunning) cancellation_->Cancel(std::move(why));
  }
  // A failed engine runs a restore, and stays failed until that has succeeded.
  absl::StatusOr<std::unique_ptr<Running>> BeginRestore();
  void Mend() {
    std::lock_guard<std::mutex> lock(mutex_);
    failure_ = absl::OkStatus();
  }
  // Cancels the running call and waits until it has left.
  void Close();
  absl::StatusOr<std::unique_ptr<Running>> BeginUnlessFailed();

  RankWorker& worker() { return *worker_; }
  const Model& model() const { return model_; }
  int64_t step() const { return step_.load(); }

 private:
  StepScope Scope(int64_t step, bool training, absl::Time deadline);
  absl::Status ApplyUpdate(const StepOptions& options, StepResult& result);
  void Fail(const absl::Status& why);
  std::vector<ShardedArray> CheckpointArrays();
  absl::Status PollSave(const RunOptions& options, bool wait);

  const EngineConfig config_;
  const Model model_;
  Environment environment_;
  PosixFileSystem own_files_;
  RealClock own_clock_;
  std::unique_ptr<UpdateRule> rule_;
  absl::optional<Schedule> schedule_;
  std::unique_ptr<Checkpointer> checkpointer_;
  RankThread thread_;
  std::unique_ptr<RankWorker> worker_;

  std::mutex mutex_;
  std::condition_variable left_running_;
  State state_ = State::kReady;
  absl::Status failure_;  // not OK: the engine is failed
  std::unique_ptr<CancellationSource> cancellation_ = std::make_unique<CancellationSource>();
  std::atomic<bool> stop_requested_{false};

  std::atomic<int64_t> step_{0};  // steps done
  int64_t updates_ = 0;           // of them, those that moved the weights
  absl::optional<SaveHandle> pending_save_;
};

absl::Status Engine::Impl::Build() {
  ARMATURE_RETURN_IF_ERROR(ValidateConfig(config_));
  if (model_.blocks.empty()) return absl::InvalidArgumentError("the model has no blocks");
  if (model_.losses.empty()) return absl::InvalidArgumentError("the model has no loss terms");
  ARMATURE_ASSIGN_OR_RETURN(rule_, MakeUpdateRule(config_.optimizer()));
  ARMATURE_ASSIGN_OR_RETURN(schedule_, MakeSchedule(config_.learning_rate()));
  absl::Status built;
  thread_.Run([&] {
    absl::StatusOr<std::unique_ptr<RankWorker>> worker =
        RankWorker::Create(config_, model_, *rule_, ThreadsPerRank(config_));
    built = worker.status();
    if (worker.ok()) worker_ = *std::move(worker);
  });
  ARMATURE_RETURN_IF_ERROR(built);
  if (config_.checkpoint().directory().empty()) return absl::OkStatus();
  CheckpointOptions options;
  options.retention.keep_last = config_.checkpoint().keep_last() > 0 ? config_.checkpoint().keep_last() : 3;
  options.model = absl::StrCat(model_.name, " parameters=", worker_->store().num_parameters());
  options.config = config_.DebugString();
  options.read_only = config_.checkpoint().read_only();
  ARMATURE_ASSIGN_OR_RETURN(
      checkpointer_, Checkpointer::Open(*environment_.files, config_.checkpoint().directory(), options));
  return absl::OkStatus();
}

void Engine::Impl::Fail(const absl::Status& why) {
  std::lock_guard<std::mutex> lock(mutex_);
  failure_ = why;
}

absl::StatusOr<std::unique_ptr<Engine::Impl::Running>> Engine::Impl::BeginRestore() {
  return Running::Begin(*this, /*for_restore=*/true);
}

void Engine::Impl::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (state_ == State::kRunning) cancellation_->Cancel(absl::CancelledError("the engine is being destroyed"));
  left_running_.wait(lock, [this] { return state_ != State::kRunning; });
}

absl::StatusOr<std::unique_ptr<Engine::Impl::Running>> Engine::Impl::BeginUnlessFailed() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failure_.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the engine failed (", failure_.ToString(), "); restore it"));
    }
  }
  return Running::Begin(*this);
}

StepScope Engine::Impl::Scope(int64_t step, bool training, absl::Time deadline) {
  StepScope scope;
  scope.step = step;
  scope.training = training;
  scope.clock = environment_.clock;
  scope.check = [this, deadline, token = cancellation_->token()]() -> absl::Status {
    if (token.cancelled()) return token.status();
    if (deadline != absl::InfiniteFuture() && environment_.clock->Now() >= deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("step: the deadline ", absl::FormatTime(deadline), " has passed"));
    }
    return absl::OkStatus();
  };
  return scope;
}

absl::Status Engine::Impl::ApplyUpdate(const StepOptions& options, StepResult& result) {
  ParameterStore& store = worker_->store();
  if (options.on_gradients != nullptr) ARMATURE_RETURN_IF_ERROR(options.on_gradients(store.Gradients()));
  result.grad_norm = std::sqrt(store.GradientSquares());
  StepFacts facts;
  facts.count = updates_ + 1;
  facts.learning_rate = schedule_->LearningRate(facts.count);
  result.learning_rate = facts.learning_rate;
  const double max_norm =
      config_.clip_norm() > 0 ? config_.clip_norm() : std::numeric_limits<double>::infinity();
  const absl::optional<float> factor = ClipFactor(result.grad_norm, max_norm);
  if (!factor.has_value() || !std::isfinite(result.loss)) {
    result.skipped = true;
    result.skip_reason = !factor.has_value() ? "the gradients' norm is not finite" : "the loss is not finite";
    return absl::OkStatus();
  }
  facts.gradient_scale = *factor;
  const absl::Status updated = store.Update(*rule_, facts);
  if (!updated.ok()) {
    Fail(AddContext(updated, "weight update"));
    return updated;
  }
  ++updates_;
  return absl::OkStatus();
}

absl::StatusOr<StepResult> Engine::Impl::Step(const Batch& batch, const StepOptions& options) {
  ARMATURE_RETURN_IF_ERROR(ValidateBatch(batch, model_, /*with_loss=*/true));
  const absl::Time start = environment_.clock->Now();
  const std::vector<int64_t> counts = CountTargets(batch, model_);
  const StepScope scope = Scope(step() + 1, /*training=*/true, options.deadline);
  StepResult result;
  result.step = step() + 1;
  result.tokens = counts[0];
  absl::Status status;
  thread_.Run([&] {
    absl::StatusOr<std::vector<double>> sums = worker_->ForwardBackward(batch, counts, scope);
    status = sums.ok() ? scope.check() : sums.status();
    if (!status.ok()) return;
    result.losses = Losses(model_, *sums, counts);
    result.loss = Total(result.losses);
    if (std::all_of(counts.begin(), counts.end(), [](int64_t count) { return count == 0; })) {
      result.skipped = true;
      result.skip_reason = "the batch has no counted target";
      result.learning_rate = schedule_->LearningRate(updates_ + 1);
      return;
    }
    const absl::Time before_update = environment_.clock->Now();
    status = ApplyUpdate(options, result);
    result.update = environment_.clock->Now() - before_update;
  });
  result.forward = worker_->forward_time();
  result.backward = worker_->backward_time();
  ARMATURE_RETURN_IF_ERROR(status);
  step_.store(result.step);
  result.updates = updates_;
  result.duration = environment_.clock->Now() - start;
  if (environment_.metrics != nullptr) {
    ARMATURE_RETURN_IF_ERROR(environment_.metrics->Report(result), "metrics of step ", result.step);
  }
  return result;
}

absl::StatusOr<EvalResult> Engine::Impl::Evaluate(BatchSource& source) {
  EvalResult result;
  std::vector<double> sums(model_.losses.size(), 0.0);
  std::vector<int64_t> counts(model_.losses.size(), 0);
  const StepScope scope = Scope(step(), /*training=*/false, absl::InfiniteFuture());
  while (true) {
    ARMATURE_ASSIGN_OR_RETURN(absl::optional<Batch> batch, source.Next());
    if (!batch.has_value()) break;
    ARMATURE_RETURN_IF_ERROR(ValidateBatch(*batch, model_, /*with_loss=*/true));
    const std::vector<int64_t> batch_counts = CountTargets(*batch, model_);
    absl::StatusOr<std::vector<double>> batch_sums;
    thread_.Run([&] { batch_sums = worker_->ForwardBackward(*batch, batch_counts, scope); });
    ARMATURE_RETURN_IF_ERROR(batch_sums.status());
    for (size_t i = 0; i < sums.size(); ++i) {
      sums[i] += (*batch_sums)[i];
      counts[i] += batch_counts[i];
    }
    ++result.batches;
  }
  if (result.batches == 0) return absl::InvalidArgumentError("Evaluate: the source has no batch");
  result.losses = Losses(model_, sums, counts);
  result.loss = Total(result.losses);
  result.tokens = counts[0];
  return result;
}

absl::StatusOr<Array> Engine::Impl::Predict(const Batch& batch) {
  ARMATURE_RETURN_IF_ERROR(ValidateBatch(batch, model_, /*with_loss=*/false));
  const StepScope scope = Scope(step(), /*training=*/false, absl::InfiniteFuture());
  absl::StatusOr<Array> predictions;
  thread_.Run([&] { predictions = worker_->Predict(batch, scope); });
  return predictions;
}

absl::Status Engine::Impl::PollSave(const RunOptions& options, bool wait) {
  if (!pending_save_.has_value() || (!wait && !pending_save_->done())) return absl::OkStatus();
  const absl::StatusOr<SaveReport> report = pending_save_->Wait();
  pending_save_.reset();
  ARMATURE_RETURN_IF_ERROR(report.status(), "checkpoint");
  return options.on_checkpoint == nullptr ? absl::OkStatus() : options.on_checkpoint(*report);
}

absl::StatusOr<RunResult> Engine::Impl::Run(BatchSource& source, const RunOptions& options) {
  RunResult result;
  result.end = RunResult::End::kMaxSteps;
  stop_requested_.store(false);
  int64_t saved_step = -1;
  while (result.steps < options.max_steps) {
    if (stop_requested_.exchange(false)) {
      result.end = RunResult::End::kStopRequested;
      break;
    }
    ARMATURE_ASSIGN_OR_RETURN(absl::optional<Batch> batch, source.Next());
    if (!batch.has_value()) {
      result.end = RunResult::End::kSourceEnded;
      break;
    }
    ARMATURE_ASSIGN_OR_RETURN(result.last, Step(*batch, {}));
    ++result.steps;
    if (options.on_step != nullptr) ARMATURE_RETURN_IF_ERROR(options.on_step(result.last));
    ARMATURE_RETURN_IF_ERROR(PollSave(options, /*wait=*/false));
    if (config_.checkpoint().every_steps() > 0 && step() % config_.checkpoint().every_steps() == 0) {
      ARMATURE_RETURN_IF_ERROR(PollSave(options, /*wait=*/true));
      ARMATURE_ASSIGN_OR_RETURN(pending_save_, Save(&source));
      saved_step = step();
    }
  }
  if (checkpointer_ != nullptr && result.steps > 0 && saved_step != step()) {
    ARMATURE_RETURN_IF_ERROR(PollSave(options, /*wait=*/true));
    ARMATURE_ASSIGN_OR_RETURN(pending_save_, Save(&source));
  }
  ARMATURE_RETURN_IF_ERROR(PollSave(options, /*wait=*/true));
  return result;
}

std::vector<ShardedArray> Engine::Impl::CheckpointArrays() {
  std::vector<ShardedArray> arrays;
  for (const std::vector<NamedBuffer>& part : {worker_->store().Weights(), worker_->store().States()}) {
    for (const NamedBuffer& buffer : part) {
      ShardedArray array;
      array.name = buffer.name;
      array.global_shape = buffer.shape;
      array.slice = WholeSlice(buffer.shape);
      array.local = buffer.view;
      arrays.push_back(std::move(array));
    }
  }
  return arrays;
}

absl::StatusOr<SaveHandle> Engine::Impl::Save(const BatchSource* source) {
  if (checkpointer_ == nullptr) {
    return absl::FailedPreconditionError("Save: checkpoint.directory is not set in the config");
  }
  TrainState state;
  state.set_update_count(updates_);
  state.set_seed(config_.seed());
  if (source != nullptr) state.set_data_position(source->Position());
  return checkpointer_->Save(step(), CheckpointArrays(), state);
}

absl::StatusOr<RestoreResult> Engine::Impl::Restore(BatchSource* source) {
  if (checkpointer_ == nullptr) {
    return absl::FailedPreconditionError("Restore: checkpoint.directory is not set in the config");
  }
  ARMATURE_ASSIGN_OR_RETURN(RestoredCheckpoint restored, checkpointer_->RestoreLatest(CheckpointArrays()));
  RestoreResult result;
  result.step = restored.step;
  result.skipped = std::move(restored.skipped);
  step_.store(restored.step);
  updates_ = restored.state.update_count();
  if (source != nullptr && !restored.state.data_position().empty()) {
    const absl::Status placed =
        AddContext(source->Restore(restored.state.data_position()), "data position of step ", restored.step);
    if (!placed.ok()) {
      Fail(placed);  // the weights are restored, the data is not: no step may follow
      return placed;
    }
  }
  return result;
}

absl::Status Engine::Impl::Export(const std::function<absl::Status(const NamedBuffer&)>& sink) {
  for (const NamedBuffer& weight : worker_->store().Weights()) ARMATURE_RETURN_IF_ERROR(sink(weight));
  return absl::OkStatus();
}

absl::Status Engine::Impl::Import(absl::Span<const NamedBuffer> weights) {
  const std::vector<NamedBuffer> own = worker_->store().Weights();
  std::vector<const NamedBuffer*> matches;
  for (const NamedBuffer& weight : own) {
    const auto match = std::find_if(weights.begin(), weights.end(), [&](const NamedBuffer& candidate) {
      return candidate.name == weight.name;
    });
    if (match == weights.end())
      return absl::InvalidArgumentError(absl::StrCat("weight ", weight.name, " is missing"));
    if (match->shape != weight.shape || match->view.dtype != DType::kF32 ||
        match->view.count != weight.shape.num_elements()) {
      return absl::InvalidArgumentError(absl::StrCat("weight ", weight.name, " is ", match->shape.ToString(),
                                                     " ", Name(match->view.dtype), ", the model's is ",
                                                     weight.shape.ToString(), " f32"));
    }
    matches.push_back(&*match);
  }
  if (weights.size() != own.size()) {
    for (const NamedBuffer& weight : weights) {
      const bool known =
          std::any_of(own.begin(), own.end(), [&](const NamedBuffer& o) { return o.name == weight.name; });
      if (!known) return absl::InvalidArgumentError(absl::StrCat("the model has no weight ", weight.name));
    }
    return absl::InvalidArgumentError("a weight is given twice");
  }
  absl::Status status;
  thread_.Run([&] {
    for (size_t i = 0; i < own.size() && status.ok(); ++i) {
      status = worker_->backend().Copy(own[i].view, matches[i]->view);
    }
  });
  return status;
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() { impl_->Close(); }

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineConfig& config, Model model,
                                                       Environment environment) {
  auto impl = std::make_unique<Impl>(config, std::move(model), std::move(environment));
  ARMATURE_RETURN_IF_ERROR(impl->Build());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

absl::StatusOr<StepResult> Engine::Step(const Batch& batch, const StepOptions& options) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, Impl::Running::Begin(*impl_));
  return impl_->Step(batch, options);
}

absl::StatusOr<EvalResult> Engine::Evaluate(BatchSource& source) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, Impl::Running::Begin(*impl_));
  return impl_->Evaluate(source);
}

absl::StatusOr<Array> Engine::Predict(const Batch& batch) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, Impl::Running::Begin(*impl_));
  return impl_->Predict(batch);
}

absl::StatusOr<RunResult> Engine::Run(BatchSource& source, const RunOptions& options) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, Impl::Running::Begin(*impl_));
  return impl_->Run(source, options);
}

absl::StatusOr<SaveHandle> Engine::Save(const BatchSource* source) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, impl_->BeginUnlessFailed());
  return impl_->Save(source);
}

absl::StatusOr<RestoreResult> Engine::Restore(BatchSource* source) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, impl_->BeginRestore());
  absl::StatusOr<RestoreResult> result = impl_->Restore(source);
  if (result.ok()) impl_->Mend();
  return result;
}

absl::Status Engine::ExportWeights(const std::function<absl::Status(const NamedBuffer&)>& sink) const {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, impl_->BeginUnlessFailed());
  return impl_->Export(sink);
}

absl::Status Engine::ImportWeights(absl::Span<const NamedBuffer> weights) {
  ARMATURE_ASSIGN_OR_RETURN(const auto running, impl_->BeginUnlessFailed());
  return impl_->Import(weights);
}

void Engine::RequestStop() { impl_->RequestStop(); }

void Engine::Cancel(absl::Status why) { impl_->Cancel(std::move(why)); }

int64_t Engine::step() const { return impl_->step(); }

int64_t Engine::num_parameters() const { return impl_->worker().store().num_parameters(); }

double Engine::FlopsPerStep(int64_t samples, int64_t positions) const {
  double flops = 0;
  for (const std::unique_ptr<Block>& block : impl_->worker().blocks()) {
    flops += 3 * block->Cost(samples, positions).forward_flops;
  }
  return flops;
}

MemoryCounters Engine::memory(MemoryCategory category) const {
  return impl_->worker().backend().allocator().counters(category);
}

MemoryCounters Engine::total_memory() const { return impl_->worker().backend().allocator().total(); }

}  // namespace armature
