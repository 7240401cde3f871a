#include "swarm/lifecycle.h"

#include <algorithm>

#include "base/check.h"

namespace weft::swarm {
namespace {

// Loading from disk into memory, on top of the download.
constexpr double kLoadBytesPerUs = 100;

Error Illegal(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

// Prepared and Committed carry the epoch they answer: the latest request, once, or an older one
// that a newer replaced.
Status CheckAnswer(std::string_view name, uint32_t epoch, uint32_t asked_epoch, Asked asked) {
  if (epoch == 0 || epoch > asked_epoch)
    return Illegal(std::string(name) + " names epoch " + std::to_string(epoch) +
                   ", but the last one asked for was " + std::to_string(asked_epoch) + ".");
  if (epoch == asked_epoch && asked == Asked::kAnswered)
    return Illegal(std::string(name) + " for epoch " + std::to_string(epoch) + " came twice.");
  return OkStatus();
}

}  // namespace

bool Lifecycle::FitsBeside(const Worker& worker, const PlanStage& stage) const {
  LayerSet both = worker.layers.loaded;
  both.AddRange(stage.first, stage.end);
  return costs_.MemoryBytes(worker.memory.weight_factor, both) <= worker.memory.limit;
}

bool Lifecycle::AllFitBeside() const {
  return std::all_of(
      staged_->stages.begin(), staged_->stages.end(),
      [this](const PlanStage& stage) { return FitsBeside(*roster_.Find(stage.worker), stage); });
}

void Lifecycle::Stage(SwarmPlan plan, Instant now) {
  CHECK(!plan.stages.empty());
  Withdraw();
  plan.epoch = 0;
  staged_ = std::move(plan);
  outbox_.NoteChange();
  if (!active_ || AllFitBeside()) return BeginPreparing(now);
  // The active plan has to go before this one can be loaded: fetch first what is missing.
  phase_ = Phase::kDownloading;
  Duration longest = options_.timeouts.prepare_min;
  for (const PlanStage& stage : staged_->stages) {
    Worker& worker = *roster_.Find(stage.worker);
    const double seconds =
        static_cast<double>(costs_.MissingBytes(worker.layers.cached, stage.first, stage.end)) /
        worker.offer.download_bytes_per_s * options_.timeouts.prepare_factor;
    longest =
        std::max(longest, Microseconds(static_cast<int64_t>(std::min(seconds, 86400.0) * 1e6)));
    Download(worker, stage.first, stage.end);
  }
  download_deadline_ = now + longest;
  OnDownload(now);
}

void Lifecycle::OnDownload(Instant now) {
  if (!staged_ || phase_ != Phase::kDownloading) return;
  for (const PlanStage& stage : staged_->stages)
    if (!roster_.Find(stage.worker)->layers.cached.HasAll(stage.first, stage.end)) return;
  BeginPreparing(now);
}

// Everything that a worker was told to load counts against its offer until it was told to drop it,
// so room is made before PrepareStage is sent, in this order: the active plan goes if the two do
// not fit beside each other, then layers of workers that neither plan uses, then whatever a worker
// of the staged plan holds besides its new stage. Messages of a connection keep their order, so
// the worker has dropped the old layers when it begins to load the new ones.
void Lifecycle::BeginPreparing(Instant now) {
  if (active_ && !AllFitBeside()) {
    active_.reset();
    rebinding_ = false;
  }
  phase_ = Phase::kPreparing;
  staged_->epoch = next_epoch_++;
  // What neither plan runs makes room first.
  for (auto& [id, worker] : roster_)
    if (worker.ready && !IsUsed(id) && worker.measure.phase != MeasureJob::Phase::kRunning)
      KeepOnly(worker, LayerSet(costs_.layer_count()));
  for (size_t i = 0; i < staged_->stages.size(); ++i) {
    const PlanStage& stage = staged_->stages[i];
    Worker& worker = *roster_.Find(stage.worker);
    if (!FitsBeside(worker, stage)) {
      LayerSet keep = worker.layers.loaded;
      keep.IntersectRange(stage.first, stage.end);
      KeepOnly(worker, keep);
    }
    const double missing =
        static_cast<double>(costs_.MissingBytes(worker.layers.cached, stage.first, stage.end));
    double weights = 0;
    for (uint32_t layer = stage.first; layer < stage.end; ++layer)
      weights += static_cast<double>(costs_.layers()[layer].weight_bytes);
    const double us =
        missing / (worker.offer.download_bytes_per_s * 1e-6) + weights / kLoadBytesPerUs;
    const Duration limit = Microseconds(
        static_cast<int64_t>(std::min(us * options_.timeouts.prepare_factor, 86400e6)));
    worker.staging.asked_at = now;
    worker.staging.answer_deadline = now + std::max(options_.timeouts.prepare_min, limit);
    worker.staging.prepare_epoch = staged_->epoch;
    worker.staging.prepare = Asked::kWaiting;
    worker.staging.commit = Asked::kNo;
    worker.layers.loaded.AddRange(stage.first, stage.end);
    worker.staging.prepare_first = stage.first;
    worker.staging.prepare_end = stage.end;
    auto& prepare = *outbox_.Control(worker.id).mutable_prepare_stage();
    prepare.set_epoch(staged_->epoch);
    prepare.set_stage(static_cast<uint32_t>(i));
    prepare.mutable_layers()->set_first(stage.first);
    prepare.mutable_layers()->set_end(stage.end);
  }
}

Status Lifecycle::OnPrepared(Worker& worker, const wire::pb::Prepared& prepared, Instant now) {
  TRY(CheckAnswer("Prepared", prepared.epoch(), worker.staging.prepare_epoch,
                  worker.staging.prepare));
  const double factor = prepared.weight_factor();
  if (!(factor >= kMinWeightFactor && factor <= kMaxWeightFactor))
    return Illegal("Prepared gives the weight factor " + std::to_string(factor) +
                   ", expected 0.25 to 16.");
  if (prepared.used_bytes() > (1ull << 50))
    return Illegal("Prepared reports " + std::to_string(prepared.used_bytes()) +
                   " bytes in use, expected at most 2^50.");
  worker.memory.weight_factor = factor;
  worker.memory.reported_bytes = prepared.used_bytes();
  outbox_.NoteChange();
  const bool answers =
      prepared.epoch() == worker.staging.prepare_epoch && worker.staging.prepare == Asked::kWaiting;
  if (answers) worker.staging.prepare = Asked::kAnswered;
  if (prepared.epoch() == worker.staging.prepare_epoch)
    for (uint32_t layer = worker.staging.prepare_first; layer < worker.staging.prepare_end;
         ++layer) {
      worker.layers.cached.Add(layer);
      worker.layers.requested.Remove(layer);
    }
  PlanStage* stage = staged_ ? staged_->StageOf(worker.id) : nullptr;
  if (!stage) return OkStatus();
  if (costs_.MemoryBytes(factor, stage->first, stage->end) > worker.memory.limit) {
    // The plan counted with less than the layers take: it is found again with what is known now.
    DropStaged(now);
    Retire(worker);
    return OkStatus();
  }
  if (!answers || staged_->epoch != prepared.epoch()) return OkStatus();
  stage->prepared = true;
  if (std::all_of(staged_->stages.begin(), staged_->stages.end(),
                  [](const PlanStage& s) { return s.prepared; })) {
    phase_ = Phase::kCommitting;
    AdvanceCommit(now);
  }
  return OkStatus();
}

// A worker that has committed an epoch takes no steps of older ones, so committing the workers of
// the active plan stops it. They come last: a newcomer that dies between Prepared and Committed, or
// is never heard of again, costs the serving plan nothing. What is left to go wrong while it stands
// still are workers that it needs itself.
void Lifecycle::AdvanceCommit(Instant now) {
  const auto& stages = staged_->stages;
  const bool newcomers_ready = std::all_of(stages.begin(), stages.end(), [this](const auto& stage) {
    return stage.committed || ServesNow(stage);
  });
  if (newcomers_ready) phase_ = Phase::kSwitching;
  for (PlanStage& stage : staged_->stages) {
    if (stage.commit_asked || (ServesNow(stage) && !newcomers_ready)) continue;
    stage.commit_asked = true;
    Worker& worker = *roster_.Find(stage.worker);
    worker.staging.commit_epoch = staged_->epoch;
    worker.staging.commit = Asked::kWaiting;
    worker.staging.asked_at = now;
    worker.staging.answer_deadline = now + options_.timeouts.commit_limit;
    outbox_.Control(worker.id).mutable_commit_stage()->set_epoch(staged_->epoch);
  }
  if (std::all_of(stages.begin(), stages.end(), [](const auto& stage) { return stage.committed; }))
    Swap(now);
}

Status Lifecycle::OnCommitted(Worker& worker, const wire::pb::Committed& committed, Instant now) {
  TRY(CheckAnswer("Committed", committed.epoch(), worker.staging.commit_epoch,
                  worker.staging.commit));
  if (committed.epoch() != worker.staging.commit_epoch || worker.staging.commit != Asked::kWaiting)
    return OkStatus();
  worker.staging.commit = Asked::kAnswered;
  if (!staged_ || staged_->epoch != committed.epoch()) return OkStatus();
  PlanStage* stage = staged_->StageOf(worker.id);
  CHECK(stage != nullptr);
  stage->committed = true;
  AdvanceCommit(now);
  return OkStatus();
}

void Lifecycle::Swap(Instant now) {
  active_ = std::move(staged_);
  staged_.reset();
  rebinding_ = false;
  last_swap_ = now;
  for (const PlanStage& stage : active_->stages) {
    Worker& worker = *roster_.Find(stage.worker);
    worker.times.compute_us.Clear();
    worker.times.stage_us.Clear();
    worker.times.batches.Clear();
  }
  for (auto& [id, worker] : roster_) Retire(worker);
  outbox_.NoteChange();
}

void Lifecycle::Retire(Worker& worker) {
  if (!worker.ready) return;
  LayerSet keep(costs_.layer_count());
  for (const auto* plan : {&active_, &staged_})
    if (*plan)
      if (const PlanStage* stage = (*plan)->StageOf(worker.id))
        keep.AddRange(stage->first, stage->end);
  if (worker.measure.phase == MeasureJob::Phase::kRunning)
    keep.AddRange(worker.measure.first, worker.measure.end);
  KeepOnly(worker, keep);
}

void Lifecycle::KeepOnly(Worker& worker, const LayerSet& keep) {
  LayerSet kept = worker.layers.loaded;
  for (uint32_t layer = 0; layer < kept.layer_count(); ++layer)
    if (!keep.Has(layer)) kept.Remove(layer);
  if (kept == worker.layers.loaded) return;
  worker.layers.loaded = kept;
  auto& message = outbox_.Control(worker.id);
  if (kept.empty()) {
    message.mutable_release();
    return;
  }
  auto& retire = *message.mutable_retire();
  for (const auto& [first, end] : kept.Ranges()) {
    auto& range = *retire.add_keep();
    range.set_first(first);
    range.set_end(end);
  }
}

Status Lifecycle::OnFailed(Worker& worker, const wire::pb::Failed& failed, Instant now) {
  if (failed.epoch() > std::max(worker.staging.prepare_epoch, worker.staging.commit_epoch))
    return Illegal("Failed names epoch " + std::to_string(failed.epoch()) +
                   ", but the last one asked for was " +
                   std::to_string(worker.staging.prepare_epoch) + ".");
  if (failed.epoch() != worker.staging.prepare_epoch ||
      worker.staging.prepare == Asked::kWithdrawn || worker.staging.commit == Asked::kWithdrawn)
    return OkStatus();  // replaced since
  if (worker.staging.prepare != Asked::kWaiting && worker.staging.commit != Asked::kWaiting)
    return Illegal("Failed names epoch " + std::to_string(failed.epoch()) +
                   ", which was answered before.");
  (worker.staging.prepare == Asked::kWaiting ? worker.staging.prepare : worker.staging.commit) =
      Asked::kAnswered;
  if (!staged_ || staged_->epoch != failed.epoch()) return OkStatus();
  DropStaged(now);
  Retire(worker);  // what it managed to load is not said
  return OkStatus();
}

// Nobody waits for the staged plan's answers any more.
void Lifecycle::Withdraw() {
  if (!staged_) return;
  for (const PlanStage& stage : staged_->stages)
    if (Worker* worker = roster_.Find(stage.worker)) {
      if (worker->staging.prepare == Asked::kWaiting) worker->staging.prepare = Asked::kWithdrawn;
      if (worker->staging.commit == Asked::kWaiting) worker->staging.commit = Asked::kWithdrawn;
    }
  staged_.reset();
  outbox_.NoteChange();
}

void Lifecycle::DropStaged(Instant now) {
  if (!staged_) return;
  const bool switching = phase_ == Phase::kSwitching;
  const std::vector<PlanStage> dropped = staged_->stages;
  Withdraw();
  // Where nothing serves, the next plan is likely to want the same layers and replaces what is
  // being prepared. Beside a serving plan they would be loaded for nobody: Retire ends that.
  if (!active_) return;
  for (const PlanStage& stage : dropped)
    if (Worker* worker = roster_.Find(stage.worker)) Retire(*worker);
  if (!switching && !rebinding_) return;
  // A worker runs steps of the last epoch it committed only, and some have committed the dropped
  // one: the active stages get a new epoch, which costs two round trips.
  rebinding_ = true;
  SwarmPlan again = *active_;
  for (PlanStage& stage : again.stages)
    stage.prepared = stage.commit_asked = stage.committed = false;
  Stage(std::move(again), now);
}

bool Lifecycle::OnWorkerGone(WorkerId worker, Instant now) {
  bool lost = false;
  if (active_ && active_->StageOf(worker)) {
    active_.reset();
    rebinding_ = false;
    lost = true;
  }
  if (staged_ && staged_->StageOf(worker)) {
    DropStaged(now);
    lost = true;
  } else if (staged_ && !active_ && phase_ == Phase::kDownloading) {
    BeginPreparing(now);
  } else if (staged_ && lost && committing()) {
    AdvanceCommit(now);  // those that served with it have nothing to wait for any more
  }
  if (lost) outbox_.NoteChange();
  return lost;
}

bool Lifecycle::IsUsed(WorkerId worker) const {
  return (active_ && active_->StageOf(worker)) || (staged_ && staged_->StageOf(worker));
}

void Lifecycle::Download(Worker& worker, uint32_t first, uint32_t end) {
  wire::pb::DownloadLayers* message = nullptr;
  for (uint32_t layer = first; layer < end; ++layer) {
    if (worker.layers.cached.Has(layer) || worker.IsFetching(layer)) continue;
    if (!message) message = outbox_.Control(worker.id).mutable_download_layers();
    message->add_layers(layer);
    worker.layers.requested.Add(layer);
  }
}

bool Lifecycle::DownloadOverdue(Instant now) const {
  return staged_ && phase_ == Phase::kDownloading && now >= download_deadline_;
}

std::optional<Instant> Lifecycle::next_timer() const {
  if (staged_ && phase_ == Phase::kDownloading) return download_deadline_;
  return std::nullopt;
}

}  // namespace weft::swarm
