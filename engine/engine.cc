#include "armature/engine/engine.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "armature/base/status_macros.h"
#include "armature/comm/inproc/inproc_group.h"
#include "armature/engine/engine_impl.h"
#include "armature/engine/optimizer_config.h"
#include "armature/engine/validate.h"

namespace armature {
namespace {

using Purpose = CallGate::Purpose;

int ThreadsPerRank(const EngineConfig& config, int ranks) {
  const int machine = static_cast<int>(std::thread::hardware_concurrency());
  return config.threads() > 0 ? config.threads() : std::clamp(machine / ranks, 1, kMaxThreads);
}

comm::MeshShape MeshShapeOf(const ParallelConfig& parallel) {
  const auto extent = [](int32_t size) { return std::max(size, 1); };
  return {extent(parallel.pipeline()), extent(parallel.data()), extent(parallel.context()),
          extent(parallel.tensor())};
}

}  // namespace

absl::Status Joined(const absl::Status& first, const absl::Status& second) {
  if (first.ok()) return second;
  if (second.ok()) return first;
  return absl::Status(first.code(), absl::StrCat(first.message(), "; ", second.ToString()));
}

Engine::Impl::Impl(const EngineConfig& config, Model model, Environment environment)
    : config_(config), model_(std::move(model)), environment_(environment) {
  if (environment_.files == nullptr) environment_.files = &own_files_;
  if (environment_.clock == nullptr) environment_.clock = &own_clock_;
}

absl::Status Engine::Impl::Build() {
  ARMATURE_RETURN_IF_ERROR(ValidateConfig(config_));
  ARMATURE_RETURN_IF_ERROR(ValidateModel(model_));
  ARMATURE_RETURN_IF_ERROR(ValidateRecomputedParts(config_, model_));
  ARMATURE_ASSIGN_OR_RETURN(rule_, MakeUpdateRule(config_.optimizer()));
  ARMATURE_ASSIGN_OR_RETURN(schedule_, MakeSchedule(config_.learning_rate()));
  if (config_.precision() == EngineConfig::F16) {
    ARMATURE_ASSIGN_OR_RETURN(scaler_, LossScaler::Create(LossScalerOptionsOf(config_.loss_scale())));
  }
  ARMATURE_RETURN_IF_ERROR(StartRanks());
  return OpenCheckpoints();
}

absl::Status Engine::Impl::StartRanks() {
  const comm::MeshShape shape = MeshShapeOf(config_.parallel());
  const int count = static_cast<int>(environment_.local_ranks > 0 ? environment_.local_ranks : shape.world());
  std::vector<std::unique_ptr<comm::Communicator>> own;
  LocalRanks::Connect connect = environment_.world;
  if (connect == nullptr) {
    comm::GroupOptions options;
    if (config_.parallel().timeout_seconds() > 0) {
      options.timeout = absl::Seconds(config_.parallel().timeout_seconds());
    }
    ARMATURE_ASSIGN_OR_RETURN(own, comm::MakeInprocGroup(count, options));
    connect = [&own](int local_rank) { return std::move(own[local_rank]); };
  }
  const int threads = ThreadsPerRank(config_, count);
  ARMATURE_ASSIGN_OR_RETURN(ranks_, LocalRanks::Start(count, shape, connect, [&](comm::Mesh& mesh) {
                              return RankWorker::Create(config_, model_, *rule_, threads, mesh);
                            }));
  return absl::OkStatus();
}

absl::Status Engine::Impl::OpenCheckpoints() {
  const CheckpointConfig& checkpoint = config_.checkpoint();
  if (checkpoint.directory().empty()) return absl::OkStatus();
  CheckpointOptions options;
  options.retention.keep_last = checkpoint.keep_last() > 0 ? checkpoint.keep_last() : 3;
  options.model = absl::StrCat(model_.name, " parameters=", ranks_->worker(0).store().num_parameters());
  options.config = config_.DebugString();
  options.read_only = checkpoint.read_only();
  ARMATURE_ASSIGN_OR_RETURN(
      checkpointer_, Checkpointer::Open(*environment_.files, checkpoint.directory(), std::move(options)),
      "checkpoint.directory ", checkpoint.directory());
  return absl::OkStatus();
}

absl::Status Engine::Impl::Report(const StepResult& step) {
  return environment_.metrics == nullptr ? absl::OkStatus() : environment_.metrics->Report(step);
}

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Engine::~Engine() { impl_->gate().Close(); }

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineConfig& config, Model model,
                                                       Environment environment) {
  auto impl = std::make_unique<Impl>(config, std::move(model), environment);
  ARMATURE_RETURN_IF_ERROR(impl->Build());
  return std::unique_ptr<Engine>(new Engine(std::move(impl)));
}

absl::StatusOr<StepResult> Engine::Step(const Batch& batch, const StepOptions& options) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kCompute));
  absl::StatusOr<StepResult> result = impl_->Step(call, batch, options);
  // The weights have moved: an error here would say that they have not.
  if (result.ok()) impl_->Report(*result).IgnoreError();
  return result;
}

absl::StatusOr<EvalResult> Engine::Evaluate(BatchSource& source) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kCompute));
  return impl_->Evaluate(call, source);
}

absl::StatusOr<Array> Engine::Predict(const Batch& batch) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kCompute));
  return impl_->Predict(call, batch);
}

absl::StatusOr<RunResult> Engine::Run(BatchSource& source, const RunOptions& options) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kCompute));
  return impl_->Run(call, source, options);
}

absl::StatusOr<SaveHandle> Engine::Save(const BatchSource* source) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kAccess));
  return impl_->Save(source);
}

absl::StatusOr<RestoreResult> Engine::Restore(BatchSource* source) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kRestore));
  return impl_->Restore(source);
}

absl::Status Engine::ExportWeights(const std::function<absl::Status(const NamedBuffer&)>& sink) const {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kAccess));
  return impl_->Export(sink);
}

absl::Status Engine::ImportWeights(absl::Span<const NamedBuffer> weights) {
  ARMATURE_ASSIGN_OR_RETURN(const CallGate::Call call, impl_->gate().Enter(Purpose::kAccess));
  return impl_->Import(weights);
}

void Engine::RequestStop() { impl_->gate().RequestStop(); }

void Engine::Cancel(absl::Status why) { impl_->gate().Cancel(std::move(why)); }

int64_t Engine::step() const { return impl_->step(); }

int64_t Engine::num_parameters() const { return impl_->ranks().worker(0).store().num_parameters(); }

double Engine::FlopsPerStep(int64_t samples, int64_t positions) const {
  double flops = 0;
  for (const std::unique_ptr<Block>& block : impl_->ranks().worker(0).blocks()) {
    flops += 3 * block->Cost(samples, positions).forward_flops;
  }
  return flops;
}

int Engine::local_ranks() const { return impl_->ranks().count(); }

MemoryCounters Engine::memory(MemoryCategory category, int local_rank) const {
  return impl_->ranks().worker(local_rank).backend().allocator().counters(category);
}

MemoryCounters Engine::total_memory() const {
  MemoryCounters all;
  for (int i = 0; i < local_ranks(); ++i) {
    const MemoryCounters rank = impl_->ranks().worker(i).backend().allocator().total();
    all.live_bytes += rank.live_bytes;
    all.peak_bytes += rank.peak_bytes;
  }
  return all;
}

}  // namespace armature
