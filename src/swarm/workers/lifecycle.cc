#include "swarm/workers/lifecycle.h"

#include <algorithm>

#include "base/check.h"

namespace weft::swarm {
namespace {

Error Illegal(std::string message) {
  return Error(ErrorCode::kInvalidData, std::move(message));
}

}  // namespace

void Lifecycle::Changed() {
  ++version_;
  changes_.Note({.view = true});
}

Binding* Lifecycle::Find(Worker& worker, BindingId wanted) {
  for (Binding& binding : worker.bindings.edit())
    if (binding.id == wanted) return &binding;
  return nullptr;
}

bool Lifecycle::IsPlanned(BindingId binding) const {
  return (active_ && active_->Uses(binding)) || (staged_ && staged_->Uses(binding));
}

void Lifecycle::Stage(SwarmPlan plan, Instant now) {
  CHECK(!plan.stages.empty() && !plan.HasHole());
  const std::optional<SwarmPlan> before = std::exchange(staged_, std::move(plan));
  restored_.reset();
  for (PlanStage& stage : staged_->stages) {
    stage.binding = {};
    for (const Binding& binding : *roster_.Find(stage.worker)->bindings)
      if (binding.layers == stage.layers()) {
        stage.binding = binding.id;
        stage.number = binding.stage;
      }
  }
  repair_deadline_ = RepairDeadline(now);
  Changed();
  if (before)
    for (const PlanStage& stage : before->stages)
      if (Worker* worker = roster_.Find(stage.worker)) Retire(*worker);
  downloading_ = false;
  const bool fits =
      std::all_of(staged_->stages.begin(), staged_->stages.end(), [this](const PlanStage& stage) {
        return stage.binding.is_set() ||
               FitsBesidePlans(*roster_.Find(stage.worker), stage.layers());
      });
  // Hubs are fetched as they are prepared: DownloadLayers means whole layers.
  if (!serves() || fits || staged_->is_hub()) return BeginPreparing(now);
  // Something of the active plan has to go before this one can be loaded: fetch first what is
  // missing.
  downloading_ = true;
  Duration longest = options_.timeouts.prepare_min;
  for (const PlanStage& stage : staged_->stages) {
    Worker& worker = *roster_.Find(stage.worker);
    const double seconds =
        static_cast<double>(costs_.MissingBytes(*worker.layers, stage.layers())) /
        worker.offer.download_bytes_per_s * options_.timeouts.prepare_factor;
    longest =
        std::max(longest, Microseconds(static_cast<int64_t>(std::min(seconds, 86400.0) * 1e6)));
    Download(worker, stage.first, stage.end);
  }
  download_deadline_ = now + longest;
  OnDownload(now);
}

// Of a plan that nothing serves in place of: everything that is missing is loaded at the same time.
// Hubs may wait for whoever takes their experts, which nobody can predict.
Instant Lifecycle::RepairDeadline(Instant now) const {
  if (!active_ || serves() || staged_->is_hub()) return Instant{INT64_MAX};
  double longest_us = 0;
  for (const PlanStage& stage : staged_->stages)
    if (!stage.binding.is_set())
      longest_us = std::max(longest_us, LoadUs(*roster_.Find(stage.worker), stage.layers()));
  const Duration limit = Microseconds(
      static_cast<int64_t>(std::min(longest_us * options_.timeouts.repair_factor, 86400e6)));
  return now + std::max(options_.timeouts.repair_min, limit);
}

bool Lifecycle::RepairOverdue(Instant now) const {
  return staged_ && !serves() && now >= repair_deadline_;
}

void Lifecycle::OnDownload(Instant now) {
  if (!staged_ || !downloading_) return;
  for (const PlanStage& stage : staged_->stages)
    if (!roster_.Find(stage.worker)->layers->HasCached(stage.layers())) return;
  BeginPreparing(now);
}

// Everything that a worker was told to load counts against its offer until it was told to drop it,
// so room is made before PrepareStage is sent. Messages of a connection keep their order: the
// worker has dropped the old layers when it begins to load the new ones.
void Lifecycle::BeginPreparing(Instant now) {
  downloading_ = false;
  for (size_t i = 0; i < staged_->stages.size(); ++i) {
    PlanStage& stage = staged_->stages[i];
    if (stage.binding.is_set()) continue;
    Worker& worker = *roster_.Find(stage.worker);
    MakeRoom(worker, stage.layers(), now);
    stage.binding = Prepare(worker, stage.layers(), static_cast<uint32_t>(i), false, now).id;
    stage.number = static_cast<uint32_t>(i);
  }
  Changed();
}

Binding& Lifecycle::Prepare(Worker& worker, LayerSpan layers, uint32_t number, bool standby,
                            Instant now) {
  Binding& binding = worker.bindings.edit().emplace_back();
  binding.id = worker.newest_binding.edit() = last_binding_ = last_binding_.Next();
  binding.stage = number;
  binding.layers = layers;
  binding.standby = standby;
  const Duration limit = Microseconds(static_cast<int64_t>(
      std::min(LoadUs(worker, layers) * options_.timeouts.prepare_factor, 86400e6)));
  // A worker loads one thing after the other.
  Instant begin = now;
  for (const Binding& other : *worker.bindings)
    if (!other.loaded) begin = std::max(begin, other.answer_deadline);
  if (!worker.holding->answered) begin = std::max(begin, worker.holding->answer_deadline);
  binding.asked_at = now;
  binding.only_loads = begin == now && worker.layers->HasCached(layers);
  const Duration least = worker.offer.kind == "native" ? options_.timeouts.prepare_min
                                                       : options_.timeouts.prepare_min_kernels;
  binding.answer_deadline = begin + std::max(least, limit);
  worker.layers.edit().NoteLoaded(layers);
  auto& prepare = *outbox_.Control(worker.id).mutable_prepare_stage();
  prepare.set_binding(binding.id.value());
  prepare.set_stage(number);
  prepare.mutable_layers()->set_first(layers.first);
  prepare.mutable_layers()->set_end(layers.end);
  prepare.set_standby(standby);
  prepare.set_is_hub(layers.is_hub());
  return binding;
}

double Lifecycle::LoadUs(const Worker& worker, LayerSpan layers) const {
  const double missing = static_cast<double>(costs_.MissingBytes(*worker.layers, layers));
  return missing / (worker.offer.download_bytes_per_s * 1e-6) +
         costs_.WeightBytes(layers) / costs_.LoadBytesPerUs(worker);
}

bool Lifecycle::StandBy(Worker& worker, LayerSpan layers, Instant now) {
  for (const Binding& binding : *worker.bindings)
    if (binding.layers == layers) return true;
  if (!FitsBeside(worker, layers, [](const Binding&) { return true; })) return false;
  Prepare(worker, layers, 0, true, now);
  Changed();
  return true;
}

void Lifecycle::KeepStandbys(Worker& worker, const std::function<bool(LayerSpan)>& is_wanted) {
  DropBindings(worker, [&](const Binding& binding) {
    return binding.standby && !IsPlanned(binding.id) && !is_wanted(binding.layers);
  });
}

void Lifecycle::OnConnected(Worker& worker) const {
  const LayerSet none(costs_.layer_count());
  worker.layers.edit() = {none, none, none, none, none};
}

void Lifecycle::OnConnect(Worker& worker) const {
  worker.memory.edit().weight_factor = worker.offer.weight_factor;
  for (const uint32_t layer : worker.offer.cached_layers)
    worker.layers.edit().NoteCached({layer, layer + 1});
}

// The answer to a binding that it was asked for, once, or that it has been told to drop since.
Status Lifecycle::OnPrepared(Worker& worker, const wire::pb::Prepared& prepared, Instant now) {
  const BindingId id(prepared.binding());
  Binding* binding = Find(worker, id);
  if (!id.is_set() || id > *worker.newest_binding)
    return Illegal("Prepared names binding " + ToString(id) + ", but the last one asked for was " +
                   ToString(*worker.newest_binding) + ".");
  if (binding != nullptr && binding->loaded)
    return Illegal("Prepared for binding " + ToString(id) + " came twice.");
  const double factor = prepared.weight_factor();
  if (!(factor >= kMinWeightFactor && factor <= kMaxWeightFactor))
    return Illegal("Prepared gives the weight factor " + std::to_string(factor) +
                   ", expected 0.25 to 16.");
  if (prepared.used_bytes() > (1ull << 50))
    return Illegal("Prepared reports " + std::to_string(prepared.used_bytes()) +
                   " bytes in use, expected at most 2^50.");
  WorkerMemory& memory = worker.memory.edit();
  memory.reported_bytes = prepared.used_bytes();
  if (memory.doubt == Doubt::kDoubted && memory.reported_bytes > worker.offer.memory_bytes)
    memory.doubt = Doubt::kRefuted;
  memory.weight_factor =
      memory.doubt == Doubt::kDoubted ? std::min(factor, worker.offer.weight_factor) : factor;
  if (binding == nullptr) return OkStatus();
  binding->loaded = true;
  NoteLoad(worker, *binding, now);
  Changed();
  worker.layers.edit().NoteCached(binding->layers);
  for (uint32_t layer = binding->layers.first; layer < binding->layers.end; ++layer)
    worker.layers.edit().requested.Remove(layer);
  // It was asked for while the layers were thought to take less: standbys make room, and where that
  // is not enough the plan is found again with what is known now.
  const auto all = [](const Binding&) { return true; };
  if (!FitsBeside(worker, binding->layers, all)) {
    DropBindings(worker, [this](const Binding& each) { return !IsPlanned(each.id); });
    if (worker.Find(id) && !FitsBeside(worker, worker.Find(id)->layers, all))
      DropExperts(worker, now);
    if (staged_ && staged_->Uses(id) && worker.Find(id) &&
        !FitsBeside(worker, worker.Find(id)->layers, all)) {
      DropStaged(now);
      Retire(worker);
      return OkStatus();
    }
  }
  return OkStatus();
}

// What was on the device already took its engine so long, and the line a round trip.
void Lifecycle::NoteLoad(Worker& worker, const Binding& binding, Instant now) const {
  if (!binding.only_loads) return;
  const double us = static_cast<double>((now - binding.asked_at).us) - costs_.LatencyUs(worker);
  worker.times.load_rate.Add(costs_.WeightBytes(binding.layers) / std::max(us, 1.0));
}

bool Lifecycle::CanSwap() const {
  if (!staged_ || downloading_) return false;
  return std::all_of(staged_->stages.begin(), staged_->stages.end(), [this](const auto& stage) {
    const Binding* binding = roster_.Find(stage.worker)->Find(stage.binding);
    return binding != nullptr && binding->loaded;
  });
}

void Lifecycle::Swap(Instant now) {
  CHECK(CanSwap());
  const std::optional<SwarmPlan> before = std::exchange(active_, std::move(staged_));
  staged_.reset();
  last_swap_ = now;
  for (const PlanStage& stage : active_->stages) {
    Worker& worker = *roster_.Find(stage.worker);
    Find(worker, stage.binding)->standby = false;
    if (before && before->Uses(stage.binding)) continue;
    worker.times.ClearBinding();
  }
  Changed();
  for (auto& [id, worker] : roster_) Retire(worker);
}

Status Lifecycle::OnFailed(Worker& worker, const wire::pb::Failed& failed, Instant now) {
  const BindingId id(failed.binding());
  if (id > *worker.newest_binding)
    return Illegal("Failed names binding " + ToString(id) + ", but the last one asked for was " +
                   ToString(*worker.newest_binding) + ".");
  const Binding* binding = worker.Find(id);
  if (binding == nullptr) return OkStatus();  // dropped since
  if (binding->loaded)
    return Illegal("Failed names binding " + ToString(id) + ", which was answered before.");
  const bool planned = staged_ && staged_->Uses(id);
  // What it managed to load is not said.
  DropBindings(worker, [id](const Binding& each) { return each.id == id; });
  if (planned) DropStaged(now);
  return OkStatus();
}

void Lifecycle::DropStaged(Instant) {
  if (!staged_) return;
  const SwarmPlan dropped = std::move(*staged_);
  staged_.reset();
  downloading_ = false;
  Changed();
  // Where nothing serves, the next plan is likely to want the same layers: what is being loaded
  // stays until it is known.
  if (!serves()) return;
  for (const PlanStage& stage : dropped.stages)
    if (Worker* worker = roster_.Find(stage.worker)) Retire(*worker);
}

bool Lifecycle::IsUsed(WorkerId worker) const {
  return (active_ && active_->StageOf(worker)) || (staged_ && staged_->StageOf(worker));
}

// Those of the staged plan first: it waits for them.
std::vector<BoundStage> Lifecycle::Followers() const {
  std::vector<BoundStage> followers;
  const auto is_staged = [this](const BoundStage& each) {
    return staged_ && staged_->Uses(each.binding);
  };
  for (const auto& [id, worker] : roster_) {
    if (!worker.ready || (active_ && active_->StageOf(id))) continue;
    for (const Binding& binding : *worker.bindings) {
      const BoundStage bound{binding.id, id, binding.stage, binding.layers};
      // A hub that stands by would ask for the experts of every token once more.
      if (binding.loaded && (!binding.layers.is_hub() || is_staged(bound)))
        followers.push_back(bound);
    }
  }
  std::stable_partition(followers.begin(), followers.end(), is_staged);
  return followers;
}

void Lifecycle::Download(Worker& worker, uint32_t first, uint32_t end) {
  wire::pb::DownloadLayers* message = nullptr;
  for (uint32_t layer = first; layer < end; ++layer) {
    if (worker.layers->cached.Has(layer) || worker.IsFetching(layer)) continue;
    if (!message) message = outbox_.Control(worker.id).mutable_download_layers();
    message->add_layers(layer);
    worker.layers.edit().requested.Add(layer);
  }
}

bool Lifecycle::DownloadOverdue(Instant now) const {
  return staged_ && downloading_ && now >= download_deadline_;
}

std::optional<Instant> Lifecycle::next_timer() const {
  if (!staged_) return std::nullopt;
  Instant next{INT64_MAX};
  if (downloading_) next = download_deadline_;
  if (!serves()) next = std::min(next, repair_deadline_);
  if (next == Instant{INT64_MAX}) return std::nullopt;
  return next;
}

}  // namespace weft::swarm
