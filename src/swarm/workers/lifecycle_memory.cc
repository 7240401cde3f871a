// What workers hold, and how room is made for more: layers, experts, what is being measured.
#include <algorithm>

#include "swarm/workers/lifecycle.h"

namespace weft::swarm {

// The other form of a layer never fits beside one.
bool Lifecycle::FitsBeside(const Worker& worker, LayerSpan layers,
                           const std::function<bool(const Binding&)>& stays) const {
  LayerSet held(costs_.layer_count()), hubs(costs_.layer_count());
  bool both_forms = false;
  const auto add = [&](const LayerSpan& span) {
    both_forms = both_forms || (span.form != layers.form && span.Overlaps(layers));
    held.Add(span);
    if (span.is_hub()) hubs.Add(span);
  };
  for (const Binding& binding : *worker.bindings)
    if (stays(binding)) add(binding.layers);
  if (worker.measure->phase == MeasureJob::Phase::kRunning)
    add({worker.measure->first, worker.measure->end});
  add(layers);
  return !both_forms && costs_.MemoryBytes(worker.memory->weight_factor, held, hubs) +
                                worker.holding->memory_bytes <=
                            worker.limit->bytes;
}

bool Lifecycle::FitsBesidePlans(const Worker& worker, LayerSpan layers) const {
  return FitsBeside(worker, layers,
                    [this](const Binding& binding) { return IsPlanned(binding.id); });
}

wire::pb::HoldExperts& Lifecycle::HoldExperts(Worker& worker, std::vector<bool> told,
                                              uint64_t memory_bytes, double load_us, Instant now) {
  WorkerHolding& experts = worker.holding.edit();
  experts.binding = worker.newest_binding.edit() = last_binding_ = last_binding_.Next();
  experts.told = std::move(told);
  experts.memory_bytes = memory_bytes;
  experts.answered = false;
  experts.was_holder = true;
  const Duration limit = Microseconds(
      static_cast<int64_t>(std::min(load_us * options_.timeouts.prepare_factor, 86400e6)));
  // A worker loads one thing after the other.
  Instant begin = now;
  for (const Binding& binding : *worker.bindings)
    if (!binding.loaded) begin = std::max(begin, binding.answer_deadline);
  experts.answer_deadline = begin + std::max(options_.timeouts.prepare_min, limit);
  auto& message = *outbox_.Control(worker.id).mutable_hold_experts();
  message.set_binding(experts.binding.value());
  return message;
}

void Lifecycle::KeepExperts(Worker& worker, const std::vector<bool>& kept) const {
  std::vector<bool>& held = worker.holding.edit().held;
  for (size_t i = 0; i < held.size(); ++i) held[i] = held[i] && i < kept.size() && kept[i];
  if (std::find(held.begin(), held.end(), true) == held.end()) held.clear();
}

// Only a report of more weights than any before lowers the factor, or it might go up and down for
// ever. Some experts take more memory for their weights than others:
//
//   room for 100   told 10, which take 90: another one seems to fit, which takes 11
//                  told 11, which take 101: told 10 again. By 90 an 11th would fit again.
//
// What computing takes is in the reports of tabs, so that few weights look heavy: of these the
// latest counts, but for a fall of a hundredth, which may be rounding.
void Lifecycle::NoteExpertsHeld(Worker& worker, uint64_t weight_bytes,
                                std::optional<double> weight_factor) const {
  WorkerHolding& holding = worker.holding.edit();
  holding.answered = true;
  holding.held = holding.told;
  if (!weight_factor) return;
  constexpr double kRounding = 0.99;
  const bool may_lower = worker.offer.kind == "native"
                             ? weight_bytes > holding.most_reported_bytes
                             : *weight_factor < kRounding * holding.weight_factor.value_or(0);
  if (!may_lower && *weight_factor <= holding.weight_factor) return;
  holding.weight_factor = weight_factor;
  holding.most_reported_bytes = std::max(holding.most_reported_bytes, weight_bytes);
}

void Lifecycle::NoteExpertsFailed(Worker& worker) const {
  WorkerHolding& holding = worker.holding.edit();
  holding.answered = true;
  holding.told = holding.held;
}

void Lifecycle::NoteExpertMemory(Worker& worker, uint64_t bytes) const {
  worker.holding.edit().memory_bytes = bytes;
}

// Layers go before experts, of which others may hold the same and which are the sooner loaded
// elsewhere (Experts).
void Lifecycle::DropExperts(Worker& worker, Instant now) {
  if (worker.holding->memory_bytes == 0) return;
  worker.holding.edit().held.clear();
  HoldExperts(worker, {}, 0, 0, now);
  Changed();
}

void Lifecycle::MakeRoom(Worker& worker, LayerSpan layers, Instant now) {
  Retire(worker);
  const auto all = [](const Binding&) { return true; };
  if (FitsBeside(worker, layers, all)) return;
  DropBindings(worker, [this](const Binding& binding) { return !IsPlanned(binding.id); });
  if (FitsBeside(worker, layers, all)) return;
  DropExperts(worker, now);
  if (FitsBeside(worker, layers, all)) return;
  // The active plan goes on without what it had here.
  if (active_)
    for (PlanStage& stage : active_->stages)
      if (stage.worker == worker.id && !staged_->Uses(stage.binding)) {
        stage.worker = {};
        stage.binding = {};
      }
  DropBindings(worker, [this](const Binding& binding) { return !IsPlanned(binding.id); });
  if (FitsBeside(worker, layers, all)) return;
  // What is being measured: the worker has measured it before it hears of this.
  DropBindings(
      worker, [](const Binding&) { return false; }, false);
}

void Lifecycle::NoteLoaded(Worker& worker, const LayerSpan& layers) const {
  worker.layers.edit().NoteLoaded(layers);
}

void Lifecycle::Doubt(Worker& worker) const {
  worker.memory.edit().doubt = Doubt::kDoubted;
  worker.memory.edit().weight_factor = worker.offer.weight_factor;
}

void Lifecycle::Retire(Worker& worker) {
  if (!worker.ready) return;
  DropBindings(worker, [this](const Binding& binding) {
    return !binding.standby && !IsPlanned(binding.id);
  });
}

// Tells the worker what stays where something goes: bindings, or layers that were loaded for none.
void Lifecycle::DropBindings(Worker& worker, const std::function<bool(const Binding&)>& goes,
                             bool keep_measured) {
  const size_t dropped = std::erase_if(worker.bindings.edit(), goes);
  LayerSet kept(costs_.layer_count()), kept_hubs(costs_.layer_count());
  for (const Binding& binding : *worker.bindings) {
    kept.Add(binding.layers);
    if (binding.layers.is_hub()) kept_hubs.Add(binding.layers);
  }
  if (keep_measured && worker.measure->phase == MeasureJob::Phase::kRunning)
    kept.AddRange(worker.measure->first, worker.measure->end);
  if (dropped == 0 && kept == worker.layers->loaded) return;
  worker.layers.edit().loaded = kept;
  worker.layers.edit().loaded_hubs = kept_hubs;
  Changed();
  auto& message = outbox_.Control(worker.id);
  // Release would let go of experts, too.
  if (kept.empty() && worker.holding->told.empty()) {
    message.mutable_release();
    return;
  }
  auto& retire = *message.mutable_retire();
  for (const auto& [first, end] : kept.Ranges()) {
    auto& range = *retire.add_keep();
    range.set_first(first);
    range.set_end(end);
  }
  for (const Binding& binding : *worker.bindings) retire.add_bindings(binding.id.value());
}

}  // namespace weft::swarm
