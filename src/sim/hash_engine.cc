#include "sim/hash_engine.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/marks.h"
#include "sampling/draw.h"
#include "sampling/penalize.h"
#include "worker/membership_events.h"

namespace weft::sim {
namespace {

class HashLayers : public engine::LoadedLayers {
 public:
  explicit HashLayers(swarm::LayerSet read) : layers(std::move(read)) {}
  const swarm::LayerSet layers;
};

// With these layers in place of those that are loaded in that form.
uint64_t MemoryWith(const Machine& machine, const swarm::LayerSet& loaded, LayerForm form) {
  const bool is_hub = form == LayerForm::kHub;
  swarm::LayerSet held = is_hub ? machine.whole : loaded, hubs = is_hub ? loaded : machine.hubs;
  for (uint32_t layer = 0; layer < machine.model.layer_count; ++layer) {
    if (held.Has(layer)) hubs.Remove(layer);
    if (hubs.Has(layer)) held.Add(layer);
  }
  return machine.costs.MemoryBytes(machine.device.weight_factor, held, hubs);
}

Error NotSimulated() {
  return Error(ErrorCode::kUnsupported, "The simulated engine has no keys and values to give.");
}

}  // namespace

// ---- layers ----

Result<std::unique_ptr<engine::LoadedLayers>> HashEngine::Read(
    std::span<const program::Program> programs, engine::WeightSource&) {
  if (auto fault = hooks_.read_fault()) return std::move(*fault);
  swarm::LayerSet read(machine_.model.layer_count), both = loaded();
  for (const program::Program& program : programs) {
    read.Add(program.layer_index);
    both.Add(program.layer_index);
  }
  if (MemoryWith(machine_, both, form_) > machine_.device.memory_bytes)
    return Error(ErrorCode::kOutOfMemory, "The layers do not fit the memory offered.");
  return std::unique_ptr<engine::LoadedLayers>(std::make_unique<HashLayers>(std::move(read)));
}

void HashEngine::Install(std::unique_ptr<engine::LoadedLayers> layers) {
  const swarm::LayerSet& read = static_cast<HashLayers&>(*layers).layers;
  for (uint32_t layer = 0; layer < machine_.model.layer_count; ++layer)
    if (read.Has(layer)) loaded().Add(layer);
}

void HashEngine::Unload(LayerRange range) {
  for (uint32_t layer = range.first; layer < range.end; ++layer) {
    loaded().Remove(layer);
    for (auto& [id, session] : sessions_) session.erase(layer);
  }
}

bool HashEngine::IsLoaded(LayerRange range) const {
  return loaded().HasAll(range.first, range.end);
}

engine::MemoryUse HashEngine::memory() const {
  const swarm::Costs& costs = machine_.costs;
  const Device& device = machine_.device;
  double weights = 0;
  for (uint32_t layer = 0; layer < machine_.model.layer_count; ++layer)
    if (loaded().Has(layer))
      weights += static_cast<double>(costs.layers(form_)[layer].weight_bytes);
  engine::MemoryUse use;
  use.weight_bytes = static_cast<uint64_t>(std::ceil(weights * device.weight_factor));
  const uint64_t held =
      costs.MemoryBytes(device.weight_factor, loaded(), is_hub() ? loaded() : swarm::LayerSet());
  use.kv_bytes = held > use.weight_bytes ? held - use.weight_bytes : 0;
  if (weights > 0 && held < device.memory_bytes)
    use.weight_bytes += std::min(device.room_bytes, device.memory_bytes - held);
  return use;
}

// ---- sessions ----

Status HashEngine::CheckRun(const engine::Run& run, LayerRange layers) const {
  const auto refuse = [&](const std::string& why) {
    const std::string sentence = "Session " + std::to_string(run.session) + " " + why;
    hooks_.refused(run, sentence);
    return Error(ErrorCode::kInvalidArgument, sentence);
  };
  const auto found = sessions_.find(run.session);
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!machine_.model.IsTransformer(layer)) continue;
    const Chain* chain = nullptr;
    if (found != sessions_.end())
      if (const auto known = found->second.find(layer); known != found->second.end())
        chain = &known->second;
    const std::string place = "layer " + std::to_string(layer);
    if (chain == nullptr) {
      if (run.first_position == 0) continue;
      return refuse("is unknown in " + place + " and does not begin at 0.");
    }
    if (run.generation < chain->generation) return refuse("is in a later generation of " + place);
    const size_t length = chain->links.size();
    if (run.generation == chain->generation ? run.first_position != length
                                            : run.first_position > length)
      return refuse("holds " + std::to_string(length) + " positions of " + place +
                    ", the run begins at " + std::to_string(run.first_position) + ".");
    if (machine_.model.IsRecurrent(layer) && run.first_position != 0 &&
        run.first_position != length && !chain->marks.contains(run.first_position))
      return refuse("holds the state of " + place + " at " + std::to_string(length) +
                    ", the run begins at " + std::to_string(run.first_position) + ".");
  }
  return OkStatus();
}

Status HashEngine::Truncate(uint32_t, uint32_t, uint32_t) {
  return NotSimulated();
}
Status HashEngine::Fork(LayerRange layers, const engine::SessionFork& fork) {
  const auto refuse = [](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument, "A fork cannot be made: " + why);
  };
  if (!IsLoaded(layers)) return refuse("its layers are not loaded.");
  Session forked = sessions_[fork.to];
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!machine_.model.IsTransformer(layer)) continue;
    const auto old = forked.find(layer);
    if (old != forked.end() && old->second.generation >= fork.generation)
      return refuse("the session is in a later generation.");
    Chain copy = sessions_[fork.from][layer];
    if (copy.links.size() < fork.position_count) return refuse("there are too few positions.");
    if (machine_.model.IsRecurrent(layer) && copy.links.size() != fork.position_count &&
        !copy.marks.contains(fork.position_count))
      return refuse("there is no state.");
    copy.generation = fork.generation;
    copy.links.resize(fork.position_count);
    copy.marks.erase(copy.marks.upper_bound(fork.position_count), copy.marks.end());
    forked.insert_or_assign(layer, std::move(copy));
  }
  sessions_[fork.to] = std::move(forked);
  return OkStatus();
}
engine::HeldSession HashEngine::Held(uint32_t session, LayerRange range) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return {};
  std::optional<engine::HeldSession> held;
  bool has_marks = false;
  for (uint32_t layer = range.first; layer < range.end; ++layer) {
    if (!machine_.model.IsTransformer(layer)) continue;
    const auto chain = found->second.find(layer);
    if (chain == found->second.end() || chain->second.links.empty()) return {};
    const auto& [generation, links, marks] = chain->second;
    const auto positions = static_cast<uint32_t>(links.size());
    if (!held) held = {generation, positions, {}};
    if (held->generation != generation) held->generation = 0;
    held->positions = std::min(held->positions, positions);
    if (!machine_.model.IsRecurrent(layer)) continue;
    if (!std::exchange(has_marks, true)) held->marks.assign(marks.begin(), marks.end());
    std::erase_if(held->marks, [&](uint32_t mark) { return !chain->second.marks.contains(mark); });
  }
  return held.value_or(engine::HeldSession());
}
Result<std::vector<uint8_t>> HashEngine::ExportKv(uint32_t, uint32_t, uint32_t, uint32_t) {
  return NotSimulated();
}
Status HashEngine::ImportKv(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, ByteSpan) {
  return NotSimulated();
}

// ---- steps ----

class HashEngine::Pending : public engine::PendingStep {
 public:
  explicit Pending(const engine::StepInput& input)
      : layers(input.layers), runs(input.runs.begin(), input.runs.end()), layer(layers.first) {}
  const engine::SlotRequest& request() const override { return request_; }

  // Its rows are behind the layer's attention, and want what the layer's ranges give.
  void StopForRanges(const HashModel& model) {
    in_.clear();
    for (const uint64_t row : rows) AppendColumns(row, in_);
    const auto& [experts, chosen, groups, ranges] = model.mixtures[layer];
    request_ = {layer,       rows.size(),   ranges, experts, ranges,
                kRowColumns, kRangeColumns, in_,    {},      SlotKind::kProducts};
  }
  // What its layer's experts give.
  void StopForExperts(const HashModel& model) {
    in_.clear();
    route_.clear();
    for (const uint64_t row : rows) {
      AppendColumns(row, in_);
      for (const uint32_t expert : model.Route(layer, row))
        route_.push_back(static_cast<float>(expert));
      for (uint32_t slot = 0; slot < model.mixtures[layer].chosen; ++slot)
        route_.push_back(HashModel::WeightOf(slot));
    }
    const HashModel::Mixture& mixture = model.mixtures[layer];
    const SlotKind kind = mixture.groups ? SlotKind::kSums : SlotKind::kExperts;
    request_ = {layer,       rows.size(), mixture.experts, 0,   mixture.chosen, kRowColumns,
                kRowColumns, in_,         route_,          kind};
  }

  const LayerRange layers;
  const std::vector<engine::Run> runs;
  uint32_t layer;              // that comes next, or that it is in
  bool behind_ranges = false;  // of that layer
  std::vector<uint64_t> rows;  // of all runs, in front of it
  // What the runs add to the chains of the layers before it, [layers][rows].
  std::vector<std::vector<uint64_t>> links;

 private:
  std::vector<float> in_, route_;
  engine::SlotRequest request_;
};

void HashEngine::TakeOverhead(const engine::StepInput& input) {
  const bool measures = input.runs[0].session >= worker::kMeasureSession - 1;  // two ranges
  double us = 0;
  // The tokens of one frame of a Generate share the overhead.
  if (machine_.overhead_due || measures) us = machine_.device.overhead_us;
  machine_.overhead_due = false;
  // How long this range takes is not quite the same each time.
  if (measures)
    us += (0.2 * random_.Uniform() - 0.1) *
          (us + machine_.costs.Cost({input.layers.first, input.layers.end}) /
                    machine_.device.bytes_per_us);
  machine_.Take(us);
}

Result<std::unique_ptr<HashEngine::Pending>> HashEngine::NewStep(const engine::StepInput& input) {
  TakeOverhead(input);
  if (auto fault = hooks_.step_fault(input.runs)) return std::move(*fault);
  if (!IsLoaded(input.layers))
    return Error(ErrorCode::kInvalidArgument, "The step is over layers that are not loaded.");
  if (!std::ranges::all_of(input.hidden, [](float value) { return std::isfinite(value); }))
    return Error(ErrorCode::kInvalidData, "The rows that came in are not finite.");
  auto step = std::make_unique<Pending>(input);
  size_t at = 0;
  for (const engine::Run& run : input.runs) {
    TRY(CheckRun(run, input.layers));
    for (uint32_t i = 0; i < run.count; ++i, ++at)
      step->rows.push_back(input.layers.first == 0
                               ? HashModel::Embed(input.token_ids[at], run.first_position + i)
                               : RowOf(input.hidden.subspan(at * kRowColumns, kRowColumns)));
  }
  return step;
}

void HashEngine::RunLayer(uint32_t layer, Pending& step) const {
  std::vector<uint64_t>& links = step.links.emplace_back();
  links.reserve(step.rows.size());
  for (const engine::Run& run : step.runs) {
    uint64_t last = 0;
    if (run.first_position > 0)
      last = sessions_.at(run.session).at(layer).links.at(run.first_position - 1);
    for (uint32_t i = 0; i < run.count; ++i) {
      uint64_t& row = step.rows[links.size()];
      last = HashModel::Mix(last, row);
      links.push_back(last);
      row = HashModel::Mix(row, last);
    }
  }
}

bool HashEngine::GoOn(Pending& step) {
  const HashModel& model = machine_.model;
  const uint32_t first = step.layer + (step.behind_ranges ? 1 : 0);
  bool stops = false;
  for (; step.layer < step.layers.end && !stops; step.layer += stops ? 0 : 1) {
    if (!model.IsTransformer(step.layer)) {
      step.links.emplace_back();
      continue;
    }
    const bool in_ranges = model.mixtures[step.layer].ranges > 0;
    if (!std::exchange(step.behind_ranges, false)) {
      RunLayer(step.layer, step);
      stops = in_ranges && is_hub();
      if (stops) {
        step.StopForRanges(model);
        continue;
      }
      for (uint64_t& row : step.rows)
        if (in_ranges) row = model.AfterRanges(step.layer, row);
    }
    if (!model.HasExperts(step.layer)) continue;
    stops = is_hub();
    if (stops)
      step.StopForExperts(model);
    else
      for (uint64_t& row : step.rows) row = model.AfterExperts(step.layer, row);
  }
  const uint32_t end = std::max(first, std::min(step.layer + 1, step.layers.end));
  machine_.Compute(static_cast<double>(step.rows.size()) *
                   machine_.costs.Cost({first, end, form_}));
  return !stops;
}

engine::StepOutput HashEngine::End(const Pending& step) {
  engine::StepOutput output;
  size_t at = 0;
  for (const engine::Run& run : step.runs) {
    Session& session = sessions_[run.session];
    for (uint32_t layer = step.layers.first; layer < step.layers.end; ++layer) {
      if (!machine_.model.IsTransformer(layer)) continue;
      Chain& chain = session[layer];
      chain.generation = run.generation;
      chain.links.resize(run.first_position);
      const auto links = step.links[layer - step.layers.first].begin() + static_cast<ptrdiff_t>(at);
      chain.links.insert(chain.links.end(), links, links + run.count);
      chain.marks.erase(chain.marks.upper_bound(run.first_position), chain.marks.end());
      if (run.marks == 0) continue;
      chain.marks.insert(run.first_position + run.count);
      DropMarks(chain.marks, run.marks);
    }
    const bool lies = machine_.Lies();
    for (uint32_t i = 0; i < run.count; ++i, ++at)
      Give(run, lies ? HashModel::Mix(step.rows[at], 1) : step.rows[at], i + 1 == run.count,
           output);
    const bool serves = run.session < worker::kMeasureSession - 1;
    if (lies && serves && run.output.kind != engine::OutputKind::kNone) hooks_.lied();
  }
  return output;
}

Result<engine::StepOutput> HashEngine::Step(const engine::StepInput& input) {
  ASSIGN_OR_RETURN(const auto step, NewStep(input));
  CHECK(GoOn(*step), "an engine of whole layers does not stop");
  return End(*step);
}

Result<engine::StepProgress> HashEngine::Begin(const engine::StepInput& input) {
  ASSIGN_OR_RETURN(auto step, NewStep(input));
  if (GoOn(*step)) return engine::StepProgress(End(*step));
  return engine::StepProgress(std::unique_ptr<engine::PendingStep>(std::move(step)));
}

Result<engine::StepProgress> HashEngine::Resume(std::unique_ptr<engine::PendingStep> pending,
                                                std::span<const float> slots) {
  auto& step = static_cast<Pending&>(*pending);
  const size_t each = slots.size() / step.rows.size();
  // The server gives a tab's hub the sums of experts.
  const bool sums = step.request().kind != SlotKind::kExperts || machine_.device.rows_to_server;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    const auto given = slots.subspan(i * each, each);
    step.rows[i] = sums ? HashModel::Join(step.rows[i], given)
                        : HashModel::Join(step.rows[i], HashModel::SumOf(given));
  }
  step.behind_ranges = step.request().kind == SlotKind::kProducts;
  if (!step.behind_ranges) ++step.layer;
  if (GoOn(step)) return engine::StepProgress(End(step));
  return engine::StepProgress(std::move(pending));
}

// What a row of `run` gives back.
void HashEngine::Give(const engine::Run& run, uint64_t row, bool last_of_run,
                      engine::StepOutput& output) const {
  const HashModel& model = machine_.model;
  const engine::Output& asked = run.output;
  if (asked.kind == engine::OutputKind::kHidden) return AppendColumns(row, output.hidden);
  if (asked.kind == engine::OutputKind::kLogits) {
    const std::vector<float> logits = model.Logits(row);
    output.logits.insert(output.logits.end(), logits.begin(), logits.end());
    return;
  }
  if (asked.kind == engine::OutputKind::kNone || !last_of_run) return;
  engine::Selection& selection = output.selections.emplace_back();
  if (asked.kind == engine::OutputKind::kArgmax) {
    for (const uint32_t rank : {0u, 1u})
      selection.candidates.push_back({model.TokenOfRank(row, rank), HashModel::LogitOfRank(rank)});
    return;
  }
  CHECK(asked.sampling != nullptr);
  const sampling::Parameters& parameters = asked.sampling->parameters;
  const std::vector<float> raw = model.Logits(row);
  std::vector<float> logits = raw;
  sampling::Penalize(parameters, asked.sampling->counts, logits);
  if (asked.kind == engine::OutputKind::kCandidates) {
    selection = HashModel::Best(logits, raw, asked.candidate_count,
                                parameters.IsGreedy() ? 1 : parameters.temperature);
    return;
  }
  const int32_t token_id = sampling::Draw(parameters, logits, asked.uniform);
  selection = HashModel::Best(raw, raw, asked.candidate_count, 1);
  selection.drawn = {token_id, raw[static_cast<size_t>(token_id)]};
}

}  // namespace weft::sim
