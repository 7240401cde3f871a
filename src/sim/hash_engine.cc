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

Error NotSimulated() {
  return Error(ErrorCode::kUnsupported, "The simulated engine has no keys and values to give.");
}

uint64_t RowOf(std::span<const float> columns) {
  uint64_t row = 0;
  for (uint32_t i = 0; i < kRowColumns; ++i)
    row |= (static_cast<uint64_t>(columns[i]) & 0xff) << (8 * i);
  return row;
}

}  // namespace

// ---- layers ----

Result<std::unique_ptr<engine::LoadedLayers>> HashEngine::Read(
    std::span<const program::Program> programs, engine::WeightSource&) {
  if (auto fault = hooks_.read_fault()) return std::move(*fault);
  swarm::LayerSet read(model_.layer_count), both = loaded_;
  for (const program::Program& program : programs) {
    read.Add(program.layer_index);
    both.Add(program.layer_index);
  }
  if (costs_.MemoryBytes(device_.weight_factor, both) > device_.memory_bytes)
    return Error(ErrorCode::kOutOfMemory, "The layers do not fit the memory offered.");
  return std::unique_ptr<engine::LoadedLayers>(std::make_unique<HashLayers>(std::move(read)));
}

void HashEngine::Install(std::unique_ptr<engine::LoadedLayers> layers) {
  const swarm::LayerSet& read = static_cast<HashLayers&>(*layers).layers;
  for (uint32_t layer = 0; layer < model_.layer_count; ++layer)
    if (read.Has(layer)) loaded_.Add(layer);
}

void HashEngine::Unload(engine::LayerRange range) {
  for (uint32_t layer = range.first; layer < range.end; ++layer) {
    loaded_.Remove(layer);
    for (auto& [id, session] : sessions_) session.erase(layer);
  }
}

bool HashEngine::IsLoaded(engine::LayerRange range) const {
  return loaded_.HasAll(range.first, range.end);
}

engine::MemoryUse HashEngine::memory() const {
  double weights = 0;
  for (uint32_t layer = 0; layer < model_.layer_count; ++layer)
    if (loaded_.Has(layer)) weights += static_cast<double>(costs_.layers()[layer].weight_bytes);
  engine::MemoryUse use;
  use.weight_bytes = static_cast<uint64_t>(std::ceil(weights * device_.weight_factor));
  const uint64_t held = costs_.MemoryBytes(device_.weight_factor, loaded_);
  use.kv_bytes = held > use.weight_bytes ? held - use.weight_bytes : 0;
  if (weights > 0 && held < device_.memory_bytes)
    use.weight_bytes += std::min(device_.room_bytes, device_.memory_bytes - held);
  return use;
}

// ---- sessions ----

Status HashEngine::CheckRun(const engine::Run& run, engine::LayerRange layers) const {
  const auto refuse = [&](const std::string& why) {
    const std::string sentence = "Session " + std::to_string(run.session) + " " + why;
    hooks_.refused(run, sentence);
    return Error(ErrorCode::kInvalidArgument, sentence);
  };
  const auto found = sessions_.find(run.session);
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
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
    if (model_.IsRecurrent(layer) && run.first_position != 0 && run.first_position != length &&
        !chain->marks.contains(run.first_position))
      return refuse("holds the state of " + place + " at " + std::to_string(length) +
                    ", the run begins at " + std::to_string(run.first_position) + ".");
  }
  return OkStatus();
}

void HashEngine::BeginRun(const engine::Run& run, engine::LayerRange layers) {
  Session& session = sessions_[run.session];
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
    Chain& chain = session[layer];
    chain.generation = run.generation;
    chain.links.resize(std::min<size_t>(chain.links.size(), run.first_position));
    chain.marks.erase(chain.marks.upper_bound(run.first_position), chain.marks.end());
  }
}

void HashEngine::EndRun(const engine::Run& run, engine::LayerRange layers) {
  if (run.marks == 0) return;
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
    Chain& chain = sessions_.at(run.session).at(layer);
    chain.marks.insert(run.first_position + run.count);
    DropMarks(chain.marks, run.marks);
  }
}

Status HashEngine::Truncate(uint32_t, uint32_t, uint32_t) {
  return NotSimulated();
}
Status HashEngine::Fork(engine::LayerRange layers, const engine::SessionFork& fork) {
  const auto refuse = [](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument, "A fork cannot be made: " + why);
  };
  if (!IsLoaded(layers)) return refuse("its layers are not loaded.");
  Session forked = sessions_[fork.to];
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
    const auto old = forked.find(layer);
    if (old != forked.end() && old->second.generation >= fork.generation)
      return refuse("the session is in a later generation.");
    Chain copy = sessions_[fork.from][layer];
    if (copy.links.size() < fork.position_count) return refuse("there are too few positions.");
    if (model_.IsRecurrent(layer) && copy.links.size() != fork.position_count &&
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
uint32_t HashEngine::SessionLength(uint32_t session, engine::LayerRange range) const {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return 0;
  const auto chain = found->second.find(std::max(range.first, 1u));
  return chain == found->second.end() ? 0 : static_cast<uint32_t>(chain->second.links.size());
}
Result<std::vector<uint8_t>> HashEngine::ExportKv(uint32_t, uint32_t, uint32_t, uint32_t) {
  return NotSimulated();
}
Status HashEngine::ImportKv(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, ByteSpan) {
  return NotSimulated();
}

// ---- steps ----

void HashEngine::TakeTime(const engine::StepInput& input, size_t row_count) {
  double us = static_cast<double>(row_count) * costs_.Cost({input.layers.first, input.layers.end}) /
              device_.bytes_per_us;
  const bool measures = input.runs[0].session >= worker::kMeasureSession - 1;  // two ranges
  // The tokens of one frame of a generation share the overhead.
  if (overhead_due_ || measures) us += device_.overhead_us;
  overhead_due_ = false;
  if (measures) us *= 0.9 + 0.2 * random_.Uniform();
  clock_ = clock_ + Microseconds(static_cast<int64_t>(us * device_.slowdown));
}

uint64_t HashEngine::RunRow(Session& session, engine::LayerRange layers, uint64_t row) const {
  for (uint32_t layer = layers.first; layer < layers.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
    std::vector<uint64_t>& chain = session[layer].links;
    chain.push_back(HashModel::Mix(chain.empty() ? 0 : chain.back(), row));
    row = HashModel::Mix(row, chain.back());
  }
  return row;
}

// What a row of `run` gives back.
void HashEngine::Give(const engine::Run& run, uint64_t row, bool last_of_run,
                      engine::StepOutput& output) const {
  const engine::Output& asked = run.output;
  if (asked.kind == engine::OutputKind::kHidden) {
    for (uint32_t i = 0; i < kRowColumns; ++i)
      output.hidden.push_back(static_cast<float>((row >> (8 * i)) & 0xff));
    return;
  }
  if (asked.kind == engine::OutputKind::kLogits) {
    const std::vector<float> logits = model_.Logits(row);
    output.logits.insert(output.logits.end(), logits.begin(), logits.end());
    return;
  }
  if (asked.kind == engine::OutputKind::kNone || !last_of_run) return;
  engine::Selection& selection = output.selections.emplace_back();
  if (asked.kind == engine::OutputKind::kArgmax) {
    for (const uint32_t rank : {0u, 1u})
      selection.candidates.push_back({model_.TokenOfRank(row, rank), HashModel::LogitOfRank(rank)});
    return;
  }
  CHECK(asked.sampling != nullptr);
  const sampling::Parameters& parameters = asked.sampling->parameters;
  const std::vector<float> raw = model_.Logits(row);
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

Result<engine::StepOutput> HashEngine::Step(const engine::StepInput& input) {
  size_t row_count = 0;
  for (const engine::Run& run : input.runs) row_count += run.count;
  TakeTime(input, row_count);
  if (auto fault = hooks_.step_fault(input.runs)) return std::move(*fault);
  if (!IsLoaded(input.layers))
    return Error(ErrorCode::kInvalidArgument, "The step is over layers that are not loaded.");
  for (const engine::Run& run : input.runs) TRY(CheckRun(run, input.layers));
  engine::StepOutput output;
  size_t at = 0;
  for (const engine::Run& run : input.runs) {
    BeginRun(run, input.layers);
    Session& session = sessions_.at(run.session);
    for (uint32_t i = 0; i < run.count; ++i, ++at) {
      const uint64_t input_row = input.layers.first == 0
                                     ? HashModel::Embed(input.token_ids[at], run.first_position + i)
                                     : RowOf(input.hidden.subspan(at * kRowColumns, kRowColumns));
      Give(run, RunRow(session, input.layers, input_row), i + 1 == run.count, output);
    }
    EndRun(run, input.layers);
  }
  return output;
}

}  // namespace weft::sim
