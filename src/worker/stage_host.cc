#include "worker/stage_host.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "base/random.h"
#include "program/product_ranges.h"
#include "program/shards.h"
#include "wire/probe_rows.h"

namespace weft::worker {
namespace {

engine::Sampling SamplingOf(const wire::Generate& asked) {
  engine::Sampling sampling{asked.sampling, {}};
  // What was made since is appended to `seen` one by one: the engine wants each token once.
  std::map<int32_t, uint32_t> counts;
  for (const auto& [id, count] : asked.seen) counts[id] += count;
  for (const auto& [id, count] : counts) sampling.counts.push_back({id, count});
  return sampling;
}

uint64_t WeightBytes(const program::Program& program) {
  uint64_t bytes = 0;
  for (const program::Weight& weight : program.weights)
    for (const auto* parts : {&weight.data, &weight.scale, &weight.zero})
      for (const program::Part& part : *parts) bytes += part.byte_count;
  return bytes;
}

// What a step that stopped wants, in the wire's terms. Rows that are not finite are the fault of
// this worker, and would be taken for that of who multiplies them.
Result<StepWaits> WaitsOf(const engine::SlotRequest& request) {
  const std::string layer = "Layer " + std::to_string(request.layer);
  constexpr uint32_t kMost = std::numeric_limits<uint16_t>::max();
  if (request.layer > kMost || request.columns > kMost || request.slot_columns > kMost ||
      request.first + request.experts > kMost)
    return Error(ErrorCode::kUnsupported,
                 layer + " has " + std::to_string(request.experts) + " experts of " +
                     std::to_string(request.columns) +
                     " columns, expected at most 65535 of each for experts on other machines.");
  StepWaits waits;
  waits.layer = static_cast<uint16_t>(request.layer);
  waits.columns = static_cast<uint16_t>(request.columns);
  if (IsInRanges(request.kind)) waits.range_columns = static_cast<uint16_t>(request.slot_columns);
  waits.top_k = request.top_k;
  waits.kind = request.kind;
  waits.largest_slot = request.largest_slot;
  waits.slot_step = request.slot_step;
  waits.rows.assign(request.in.begin(), request.in.end());
  const auto is_finite = [](float value) { return std::isfinite(value); };
  const auto finite = std::count_if(waits.rows.begin(), waits.rows.end(), is_finite);
  if (static_cast<size_t>(finite) < waits.rows.size())
    return Error(ErrorCode::kInvalidData,
                 layer + " gave " +
                     std::to_string(waits.rows.size() - static_cast<size_t>(finite)) +
                     " values that are not finite to its experts.");
  for (size_t row = 0; row < request.row_count; ++row)
    for (size_t j = 0; j < request.top_k; ++j)
      waits.experts.push_back(
          request.route.empty()
              ? request.first + static_cast<uint32_t>(j)
              : static_cast<uint32_t>(request.route[row * 2 * request.top_k + j]));
  return waits;
}

}  // namespace

// What ReadHubs gives to InstallLayers: the layers, and the bytes of the weights they have.
class StageHost::LoadedHubs : public engine::LoadedLayers {
 public:
  std::unique_ptr<engine::LoadedLayers> layers;
  std::map<uint32_t, uint64_t> bytes;
  std::set<std::pair<uint32_t, uint32_t>> in_integers;
};

Result<std::unique_ptr<engine::LoadedLayers>> StageHost::ReadHubs(
    std::span<const program::Program> programs, engine::WeightSource& source) {
  auto loaded = std::make_unique<LoadedHubs>();
  std::vector<program::Program> hubs;
  for (const program::Program& program : programs) {
    hubs.push_back(program::HubProgram(program));
    loaded->bytes[program.layer_index] = WeightBytes(hubs.back());
    std::vector<uint32_t> asked = {0};  // the first parts of what is asked for together
    for (const program::ProductRanges& each : program::FindRanges(program))
      asked.push_back(each.exchange);
    for (const uint32_t part : asked)
      if (program::TakesIntegers(program, part))
        loaded->in_integers.emplace(program.layer_index, part);
  }
  ASSIGN_OR_RETURN(loaded->layers, hub_->Read(hubs, source));
  return std::unique_ptr<engine::LoadedLayers>(std::move(loaded));
}

Result<Outcome> StageHost::Do(Work work) {
  return std::visit([this](auto& each) { return On(each); }, work);
}

Result<Outcome> StageHost::On(InstallLayers& work) {
  engine::StageEngine& engine = IsHub(work.form) ? *hub_ : *engine_;
  if (IsHub(work.form)) {
    auto& loaded = static_cast<LoadedHubs&>(*work.layers);
    hub_bytes_.merge(loaded.bytes);
    in_integers_.merge(loaded.in_integers);
    engine.Install(std::move(loaded.layers));
  } else {
    engine.Install(std::move(work.layers));
  }
  for (const LayerRange range : work.ranges)
    if (!engine.IsLoaded(range))
      return Error(ErrorCode::kUnavailable, "Layers " + std::to_string(range.first) + " to " +
                                                std::to_string(range.end) +
                                                " were unloaded while others of them were read.");
  const engine::MemoryUse use = engine.memory();
  const uint64_t weight_bytes = StoredBytes(engine, IsHub(work.form));
  Installed installed;
  installed.used_bytes = use.weight_bytes + use.kv_bytes + use.scratch_bytes;
  if (weight_bytes > 0)
    installed.weight_factor =
        static_cast<double>(use.weight_bytes) / static_cast<double>(weight_bytes);
  return Outcome(installed);
}

uint64_t StageHost::StoredBytes(const engine::StageEngine& engine, bool are_hubs) const {
  const auto is_loaded = [&](uint32_t layer) { return engine.IsLoaded({layer, layer + 1}); };
  uint64_t byte_count = 0;
  for (uint32_t layer = 0; layer < model_.layer_count(); ++layer) {
    if (!is_loaded(layer)) continue;
    const auto& [weight_bytes, shared] = model_.layers[layer];
    const uint64_t own = are_hubs ? hub_bytes_.at(layer) : weight_bytes;
    const bool has_both = shared.with >= 0 && is_loaded(static_cast<uint32_t>(shared.with));
    byte_count += has_both ? own - std::min(own, shared.byte_count) : own;
  }
  return byte_count;
}

Result<Outcome> StageHost::On(InstallExperts& work) {
  return Outcome(ExpertsInstalled{experts_->Install(std::move(work.experts))});
}

Result<Outcome> StageHost::On(RunExperts& work) {
  const Instant begin = clock_();
  ExpertResults ran;
  ran.results = experts_->Run(work.dispatches);
  ran.computed = clock_() - begin;
  return Outcome(std::move(ran));
}

Result<Outcome> StageHost::On(MeasureSpeed& work) {
  Timings timings;
  for (const LayerRange range : work.ranges) timings.of_ranges.push_back({range, {}});
  Status status = OkStatus();
  for (uint32_t run = 0; run < work.runs && status.ok(); ++run)
    for (size_t i = 0; i < timings.of_ranges.size() && status.ok(); ++i) {
      Timing& timing = timings.of_ranges[i];
      const auto elapsed =
          TimeOneRow(timing.layers, kMeasureSession - static_cast<uint32_t>(i), run);
      if (elapsed.ok())
        timing.runs.push_back(*elapsed);
      else
        status = elapsed.error();
    }
  for (size_t i = 0; i < timings.of_ranges.size(); ++i)
    engine_->Release(kMeasureSession - static_cast<uint32_t>(i));
  TRY(std::move(status));
  for (const Probe& probe : work.probes) {
    auto answer = Answer(probe);
    engine_->Release(kMeasureSession);
    if (!answer.ok()) return answer.error();
    timings.answers.push_back(std::move(*answer));
  }
  return Outcome(std::move(timings));
}

Result<ProbeAnswer> StageHost::Answer(const Probe& probe) {
  const uint32_t columns = model_.hidden_columns;
  const engine::Output output{engine::OutputKind::kHidden, 0};
  const engine::Run run{kMeasureSession, 0, 0, static_cast<uint16_t>(probe.rows), output};
  const std::vector<float> rows = wire::ProbeRows(probe.seed, probe.rows, columns);
  ASSIGN_OR_RETURN(const engine::StepOutput given,
                   engine_->Step({probe.layers, {&run, 1}, {}, rows}));
  ASSIGN_OR_RETURN(const std::vector<uint8_t> bytes,
                   EncodeRows(given.hidden, model_.boundary_dtype, probe.layers));
  ProbeAnswer answer;
  answer.digest = Sha256(bytes);
  for (uint32_t row = 0; row < probe.rows; ++row)
    for (const uint32_t column : wire::ProbeColumns(columns))
      answer.samples.push_back(given.hidden.at(size_t{row} * columns + column));
  return answer;
}

Result<Duration> StageHost::TimeOneRow(LayerRange range, uint32_t session, uint32_t position) {
  const bool is_last = range.end == model_.layer_count();
  const engine::Output output{is_last ? engine::OutputKind::kArgmax : engine::OutputKind::kHidden,
                              0};
  const engine::Run run{session, 0, position, 1, output};
  const std::vector<int32_t> token_ids(range.first == 0 ? 1 : 0, 0);
  const std::vector<float> hidden(range.first == 0 ? 0 : model_.hidden_columns, 0.01f);
  const Instant begin = clock_();
  TRY(engine_->Step({range, {&run, 1}, token_ids, hidden}));
  return clock_() - begin;
}

Result<Outcome> StageHost::On(RunStep& work) {
  if (IsHub(work.form)) return BeginHubStep(work);
  const Instant taken = clock_();
  DecodedStep step;
  TRY(DecodeStep(work.frame, model_, work.layers, sampling_, &step));
  const Instant begin = clock_();
  ASSIGN_OR_RETURN(const engine::StepOutput output, engine_->Step(step.input));
  const Duration computed = clock_() - begin;
  ASSIGN_OR_RETURN(auto message, EncodeResult(work.frame, model_, work.layers, output,
                                              {static_cast<uint32_t>((taken - work.arrival).us),
                                               static_cast<uint32_t>(computed.us)}));
  return Outcome(StepReply{std::move(message)});
}

Result<Outcome> StageHost::BeginHubStep(RunStep& work) {
  auto& step = hub_steps_.at(work.place);
  step = std::make_unique<HubStep>();
  step->frame = std::move(work.frame);
  step->layers = work.layers;
  step->arrival = work.arrival;
  step->predicts = work.predicts && find_predictor_;
  Status decoded = DecodeStep(step->frame, model_, step->layers, sampling_, &step->decoded);
  if (!decoded.ok()) {
    step.reset();
    return decoded.error();
  }
  const Instant begin = clock_();
  return GoOn(work.place, begin, hub_->Begin(step->decoded.input));
}

Result<Outcome> StageHost::On(ResumeStep& work) {
  const Instant begin = clock_();
  auto& step = hub_steps_.at(work.place);
  return GoOn(work.place, begin, hub_->Resume(std::move(step->pending), work.slot_rows));
}

Result<Outcome> StageHost::GoOn(uint32_t place, Instant begin,
                                Result<engine::StepProgress> progress) {
  const Instant now = clock_();
  // Unless it stops again this is its end.
  std::unique_ptr<HubStep> step = std::move(hub_steps_[place]);
  step->computed = step->computed + (now - begin);
  if (!progress.ok()) return progress.error();
  if (auto* pending = std::get_if<std::unique_ptr<engine::PendingStep>>(&*progress)) {
    step->pending = std::move(*pending);
    ASSIGN_OR_RETURN(StepWaits waits, WaitsOf(step->pending->request()));
    waits.in_integers = in_integers_.contains({waits.layer, step->pending->request().first});
    if (step->predicts && waits.kind == SlotKind::kSums) waits.norms = Predict(*step, waits);
    hub_steps_[place] = std::move(step);
    return Outcome(std::move(waits));
  }
  // What it waited for, its turn or its experts, is not the line's either.
  const Duration waited = now - step->arrival - step->computed;
  ASSIGN_OR_RETURN(
      auto message,
      EncodeResult(step->frame, model_, step->layers, std::get<engine::StepOutput>(*progress),
                   {static_cast<uint32_t>(waited.us), static_cast<uint32_t>(step->computed.us)}));
  return Outcome(StepReply{std::move(message)});
}

// Usually they were predicted while the rows of the layer before were away (PredictNext).
std::vector<float> StageHost::Predict(HubStep& step, const StepWaits& waits) {
  const auto before = std::exchange(step.rows, waits.rows);
  const uint32_t before_layer = std::exchange(step.layer, waits.layer);
  step.columns = waits.columns;
  std::vector<float> norms = std::exchange(step.next_norms, {});
  // What a step lacks, as it began behind the layer that is read, cannot be told.
  if (before_layer + 1 != waits.layer || before.size() != waits.rows.size()) norms.clear();
  if (norms.empty()) norms = NormsOf(waits.layer, waits.layer, waits.rows, waits.columns);
  if (norms.empty() && before.size() == waits.rows.size())
    norms = NormsOf(waits.layer, before_layer, before, waits.columns);
  if (norms.size() != waits.top_k) norms.clear();
  return norms;
}

std::vector<float> StageHost::NormsOf(uint32_t layer, uint32_t of, std::span<const float> rows,
                                      uint32_t columns) {
  auto found = predictors_.find(layer);
  if (found == predictors_.end()) found = predictors_.emplace(layer, find_predictor_(layer)).first;
  const std::optional<package::GroupPredictor>& predictor = found->second;
  if (!predictor || predictor->columns != columns || predictor->reads != of) return {};
  std::vector<float> sums(predictor->groups);
  for (size_t at = 0; at < rows.size(); at += columns) {
    const std::vector<float> norms = predictor->Predict(rows.subspan(at, columns));
    for (size_t group = 0; group < sums.size(); ++group) sums[group] += norms[group];
  }
  return sums;
}

Result<Outcome> StageHost::On(PredictNext& work) {
  HubStep* step = hub_steps_.at(work.place).get();
  if (step != nullptr && step->predicts && step->layer + 1 < model_.layers.size())
    step->next_norms = NormsOf(step->layer + 1, step->layer, step->rows, step->columns);
  return Outcome(Done{});
}

Result<Outcome> StageHost::On(AbandonSteps& work) {
  for (const uint32_t place : work.places) hub_steps_.at(place).reset();
  return Outcome(Done{});
}

Result<std::vector<int32_t>> StageHost::NextTokens(std::span<MadeOfOne* const> parts) {
  std::vector<engine::Sampling> samplings(parts.size());
  std::vector<engine::Run> runs;
  std::vector<int32_t> token_ids;
  for (size_t i = 0; i < parts.size(); ++i) {
    const wire::Generate& asked = parts[i]->rest;
    engine::Output output;
    if (asked.sampling.IsGreedy() && !asked.sampling.ChangesLogits()) {
      output.kind = engine::OutputKind::kArgmax;
    } else {
      samplings[i] = SamplingOf(asked);
      output.kind = engine::OutputKind::kDraw;
      output.sampling = &samplings[i];
      output.uniform =
          CounterDouble(asked.sampling.seed.value_or(0), uint64_t{asked.position} + 1, 0);
    }
    runs.push_back({asked.session, asked.generation, asked.position, 1, output});
    token_ids.push_back(asked.token_id);
  }
  const LayerRange whole = {0, model_.layer_count()};
  ASSIGN_OR_RETURN(const engine::StepOutput made, engine_->Step({whole, runs, token_ids, {}}));
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < runs.size(); ++i) {
    const engine::Selection& selection = made.selections.at(i);
    tokens.push_back(runs[i].output.kind == engine::OutputKind::kDraw
                         ? selection.drawn.token_id
                         : selection.candidates.at(0).token_id);
  }
  return tokens;
}

// One token more of each. Which of several rows made a step fail is not said: each is tried again
// by itself.
void StageHost::MakeNext(std::span<MadeOfOne* const> parts) {
  const auto tokens = NextTokens(parts);
  if (!tokens.ok() && parts.size() > 1) {
    for (size_t i = 0; i < parts.size(); ++i) MakeNext(parts.subspan(i, 1));
    return;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!tokens.ok()) {
      parts[i]->error = tokens.error();
      continue;
    }
    wire::Generate& asked = parts[i]->rest;
    asked.token_id = (*tokens)[i];
    ++asked.position;
    if (!asked.seen.empty()) asked.seen.push_back({asked.token_id, 1});
    parts[i]->tokens.token_ids.push_back(asked.token_id);
    parts[i]->tokens.last =
        --asked.count == 0 || std::find(asked.stop_ids.begin(), asked.stop_ids.end(),
                                        asked.token_id) != asked.stop_ids.end();
  }
}

Result<Outcome> StageHost::On(MakeTokens& work) {
  const Instant begin = clock_();
  MadeTokens made;
  uint16_t interval = UINT16_MAX;
  for (wire::Generate& asked : work.asked) {
    MadeOfOne& one = made.of_each.emplace_back();
    one.tokens.sequence = asked.sequence;
    one.tokens.binding = asked.binding;
    if (asked.token_id < 0 || static_cast<uint32_t>(asked.token_id) >= model_.vocabulary)
      one.error = Error(ErrorCode::kInvalidData, "Token id " + std::to_string(asked.token_id) +
                                                     " is outside the vocabulary of " +
                                                     std::to_string(model_.vocabulary) + ".");
    interval = std::min(interval, asked.interval);
    one.rest = std::move(asked);
  }
  for (uint16_t i = 0; i < interval; ++i) {
    std::vector<MadeOfOne*> parts;
    for (MadeOfOne& one : made.of_each)
      if (!one.error && !one.tokens.last) parts.push_back(&one);
    if (parts.empty()) break;
    MakeNext(parts);
    const auto compute_us = static_cast<uint32_t>((clock_() - begin).us);
    for (MadeOfOne* one : parts) one->tokens.compute_us = compute_us;
  }
  return Outcome(std::move(made));
}

// An error changes nothing, and the next step of the session meets it.
Result<Outcome> StageHost::On(ForkSession& work) {
  engine::StageEngine& engine = IsHub(work.form) ? *hub_ : *engine_;
  static_cast<void>(engine.Fork(work.layers, work.fork).ok());
  return Outcome(Done{});
}

Result<Outcome> StageHost::On(TakeSampling& work) {
  TRY(sampling_.OnMessage(work.message, model_.vocabulary));
  return Outcome(Done{});
}

Result<Outcome> StageHost::On(ReleaseSessions& work) {
  for (const uint32_t session : work.sessions) {
    engine_->Release(session);
    if (hub_) hub_->Release(session);
    sampling_.Release(session);
  }
  return Outcome(Done{});
}

Result<Outcome> StageHost::On(ReleaseAll&) {
  sampling_.Clear();
  if (experts_) experts_->Clear();
  for (engine::StageEngine* engine : {engine_.get(), hub_.get()}) {
    if (engine == nullptr) continue;
    engine->ReleaseAll();
    engine->Unload({0, model_.layer_count()});
  }
  hub_bytes_.clear();
  in_integers_.clear();
  return Outcome(Done{});
}

Result<Outcome> StageHost::On(KeepLayers& work) {
  const auto keep = [this](engine::StageEngine& engine, const std::vector<LayerRange>& ranges) {
    for (uint32_t layer = 0; layer < model_.layer_count(); ++layer) {
      const bool kept = std::any_of(ranges.begin(), ranges.end(), [layer](LayerRange range) {
        return range.first <= layer && layer < range.end;
      });
      if (!kept) engine.Unload({layer, layer + 1});
    }
  };
  keep(*engine_, work.ranges);
  if (hub_) {
    keep(*hub_, work.hubs);
    std::erase_if(hub_bytes_, [this](const auto& entry) {
      return !hub_->IsLoaded({entry.first, entry.first + 1});
    });
  }
  return Outcome(Done{});
}

Result<Outcome> StageHost::On(TakeStock& work) {
  for (size_t i = 0; i < work.bindings.size(); ++i) {
    wire::pb::HeldBinding& binding = work.bindings[i];
    const engine::StageEngine& engine = IsHub(work.forms[i]) ? *hub_ : *engine_;
    const LayerRange layers = {binding.layers().first(), binding.layers().end()};
    for (const uint32_t session : work.sessions) {
      const engine::HeldSession held = engine.Held(session, layers);
      if (held.positions == 0) continue;
      binding.add_sessions(session);
      binding.add_positions(held.positions);
      wire::pb::HeldSession& claim = *binding.add_claims();
      claim.set_session(session);
      claim.set_generation(held.generation);
      claim.set_positions(held.positions);
      claim.mutable_marks()->Assign(held.marks.begin(), held.marks.end());
    }
  }
  return Outcome(Stock{std::move(work.bindings)});
}

}  // namespace weft::worker
