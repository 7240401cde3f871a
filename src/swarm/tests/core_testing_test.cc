// The body of core_testing.h; its name puts it into the test program only.
#include "swarm/tests/core_testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "tensor/half.h"
#include "wire/expert_frame.h"
#include "wire/probe_rows.h"
#include "wire/tensor_channel.h"
#include "wire/version.h"

namespace weft::swarm {

namespace {

const char* NameOf(wire::OutputKind kind) {
  constexpr const char* kNames[] = {"none", "hidden", "argmax", "candidates", "logits", "draw"};
  return kNames[static_cast<size_t>(kind)];
}

// The ids of the tokens that the rows of a step stand for.
std::vector<int32_t> ValuesOf(const wire::Frame& step) {
  std::vector<int32_t> values(step.header.rows);
  const uint8_t* payload = step.payload.bytes().data();
  for (size_t row = 0; row < values.size(); ++row)
    values[row] = step.header.dtype == DType::kI32
                      ? LoadLe<int32_t>(payload + row * 4)
                      : static_cast<int32_t>(
                            F16ToF32(LoadLe<uint16_t>(payload + row * step.header.columns * 2)));
  return values;
}

}  // namespace

CoreOptions TestOptions() {
  CoreOptions options;
  options.model.name = "test";
  options.model.layers.assign(6, ModelLayer{kTestLayerBytes, kTestLayerBytes, kTestLayerBytes, 0});
  options.model.hidden_columns = 4;
  options.model.vocabulary = 1000;
  options.context_length = 64;
  options.session_count = 2;
  options.queue_limit = 3;
  options.prefill_chunk_rows = 8;
  options.prefill_chunk_time = {};
  options.timeouts.newcomer = {};
  return options;
}

TestWorker Half() {
  TestWorker worker;
  worker.memory_bytes = 3'500'000;
  return worker;
}

TestWorker Third() {
  TestWorker worker;
  worker.memory_bytes = 2'500'000;
  return worker;
}

TestWorker Silent() {
  TestWorker worker;
  worker.answer_steps = false;
  return worker;
}

std::vector<int32_t> Counting(int32_t from, size_t count) {
  std::vector<int32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = from + static_cast<int32_t>(i);
  return tokens;
}

TestSwarm::TestSwarm(CoreOptions options) : options_(options), core_(options) {}

WorkerId TestSwarm::Open(TestWorker worker) {
  const WorkerId id = next_worker_++;
  if (worker.device_id.empty()) worker.device_id = "device" + ToString(id);
  workers_[id] = worker;
  seen_[id] = {};
  Feed(WorkerConnected{id, worker.address, worker.network, worker.trusted});
  return id;
}

wire::pb::WorkerMessage TestSwarm::ConnectOf(WorkerId id) const {
  const TestWorker& worker = workers_.at(id);
  wire::pb::WorkerMessage message;
  auto& connect = *message.mutable_connect();
  connect.set_protocol_version(wire::kProtocolVersion);
  connect.set_program_version(options_.model.program_version);
  connect.set_package_format(options_.model.package_format);
  connect.set_kind(worker.kind);
  connect.set_engine(worker.engine);
  connect.set_name("worker " + ToString(id));
  connect.set_device(worker.device);
  connect.set_memory_bytes(worker.memory_bytes);
  connect.set_weight_factor(1);
  connect.set_download_bytes_per_s(worker.bytes_per_s);
  connect.set_upload_bytes_per_s(worker.bytes_per_s);
  connect.set_join_token(worker.token);
  connect.set_needs_onnx(worker.needs_onnx);
  connect.set_makes_tokens(worker.makes_tokens);
  connect.set_takes_experts(worker.takes_experts);
  connect.set_can_be_hub(worker.can_be_hub);
  connect.set_rows_to_server(worker.rows_to_server);
  connect.set_keeps_state(worker.keeps_state);
  connect.set_states_ahead(worker.states_ahead);
  connect.set_runs_groups(worker.runs_groups);
  connect.set_divides_heads(worker.divides_heads);
  connect.set_divides_products(worker.divides_products);
  connect.set_half_rows(worker.half_rows);
  connect.set_sum_steps(worker.sum_steps);
  connect.set_integer_rows(worker.integer_rows);
  connect.set_worker_id(worker.device_id);
  for (const DType dtype : worker.dtypes) connect.add_dtypes(static_cast<uint32_t>(dtype));
  connect.set_datagram_addresses(wire::PackAddresses(worker.datagram_addresses));
  for (const uint32_t layer : worker.cached_layers) connect.add_cached_layers(layer);
  const Seen& seen = seen_.at(id);
  for (const TestBinding& binding : seen.bindings) {
    auto& held = *connect.add_held();
    held.set_id(binding.id.value());
    held.set_stage(binding.stage);
    held.mutable_layers()->set_first(binding.layers.first);
    held.mutable_layers()->set_end(binding.layers.end);
    for (const auto& [session, rows] : seen.engine.Sessions(binding.layers)) {
      held.add_sessions(session);
      held.add_positions(rows.count);
      auto& claim = *held.add_claims();
      claim.set_session(session);
      claim.set_generation(rows.generation);
      claim.set_positions(rows.count);
    }
  }
  return message;
}

WorkerId TestSwarm::Join(TestWorker worker) {
  const WorkerId id = Open(std::move(worker));
  Control(id, ConnectOf(id));
  return id;
}

void TestSwarm::Lose(WorkerId id) {
  Gone(id);
  Feed(WorkerLost{id, "socket closed"});
}

void TestSwarm::Gone(WorkerId id) {
  const auto seen = seen_.find(id);
  if (seen == seen_.end()) return;
  lost_[id] = {workers_.at(id), std::move(seen->second)};
  workers_.erase(id);
  seen_.erase(seen);
}

WorkerId TestSwarm::Return(WorkerId lost) {
  auto& [worker, before] = lost_.at(lost);
  const WorkerId id = Open(worker);
  Seen& seen = seen_.at(id);
  seen.bindings = before.bindings;
  std::erase_if(seen.bindings, [](const TestBinding& binding) { return !binding.loaded; });
  seen.engine = before.engine;
  Control(id, ConnectOf(id));
  return id;
}

void TestSwarm::Restart(const std::function<void(CoreOptions&)>& change) {
  options_.restored = core_.placement();
  options_.lifetimes = options_.restored->lifetimes;
  if (change) change(options_);
  while (!seen_.empty()) Gone(seen_.begin()->first);
  core_ = Core(options_);
  ClearLog();
}

RequestId TestSwarm::Submit(std::vector<int32_t> prompt, uint32_t max_tokens) {
  Request request;
  request.id = next_request_++;
  request.prompt_ids = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  const RequestId id = request.id;
  Feed(RequestSubmitted{std::move(request)});
  return id;
}

void TestSwarm::Submit(Request request) {
  next_request_ = std::max(next_request_, request.id.Next());
  Feed(RequestSubmitted{std::move(request)});
}

void TestSwarm::Feed(Event event) {
  queue_.push_back(std::move(event));
  if (running_) return;
  running_ = true;
  while (!queue_.empty()) {
    const Event next = std::move(queue_.front());
    queue_.pop_front();
    NoteAnswer(next);
    for (const Action& action : core_.Handle(next, now_)) {
      log_.push_back(action);
      Carry(action);
    }
  }
  running_ = false;
}

void TestSwarm::Advance(Duration duration) {
  const Instant until = now_ + duration;
  for (;;) {
    const auto timer = core_.next_timer();
    if (!timer || *timer > until) break;
    now_ = std::max(now_, *timer);
    Feed(TimerFired{});
    const auto again = core_.next_timer();
    CHECK(!again || *again > now_, "a timer that fired is still due");
  }
  now_ = until;
}

void TestSwarm::BringUp(int workers, TestWorker worker) {
  for (int i = 0; i < workers; ++i) Join(worker);
  Advance(Milliseconds(200));
  CHECK(picture().state == SwarmState::kUp, "the test swarm did not come up");
}

WorkerId TestSwarm::JoinTimed(TestWorker worker) {
  CHECK(hold_plans);
  const WorkerId id = Join(std::move(worker));
  Advance(Milliseconds(150));
  // Nobody is timed while a plan is looked for.
  for (int i = 0; i < 3 && Sent(id).find("measure_speed") == std::string::npos; ++i) AnswerNoPlan();
  return id;
}

void TestSwarm::AnswerPlan(const std::vector<std::pair<WorkerId, LayerSpan>>& stages) {
  const StartPlanning& job = held_plans.back();
  PlanFound found{job.work, {}};
  planner::Plan& plan = found.outcome.plan.emplace();
  for (const auto& [id, layers] : stages) {
    planner::StageAssignment& stage = plan.stages.emplace_back();
    const auto worker =
        std::find_if(job.workers.begin(), job.workers.end(),
                     [id = id](const auto& each) { return each.name == "worker " + ToString(id); });
    CHECK(worker != job.workers.end(), "the plan counts on a worker that was not planned with");
    stage.worker = static_cast<int>(worker - job.workers.begin());
    stage.first_layer = static_cast<int>(layers.first);
    stage.end_layer = static_cast<int>(layers.end);
    stage.exec_us = 1;
  }
  plan.exec_us = plan.total_cost = static_cast<double>(stages.size());
  Feed(std::move(found));
}

void TestSwarm::Carry(const Action& action) {
  if (const auto* control = std::get_if<SendControl>(&action)) return OnControlAction(*control);
  if (const auto* data = std::get_if<SendData>(&action)) {
    if (!seen_.contains(data->worker)) return;
    std::vector<uint8_t> bytes;
    for (const Slice& piece : data->pieces)
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    if (wire::IsShardMessage(bytes)) return;
    if (wire::IsWholeFrame(bytes))
      return OnWholeFrame(data->worker, wire::DecodeWholeFrame(bytes).value());
    if (wire::IsForkFrame(bytes)) return OnFork(data->worker, wire::DecodeFork(bytes).value());
    OnStep(data->worker, wire::DecodeFrame(Slice(std::move(bytes))).value());
  } else if (const auto* limit = std::get_if<SetMessageLimit>(&action)) {
    if (seen_.contains(limit->worker)) seen_[limit->worker].message_limit = limit->bytes;
  } else if (const auto* closed = std::get_if<CloseWorker>(&action)) {
    Gone(closed->worker);
  } else if (const auto* plan = std::get_if<StartPlanning>(&action)) {
    if (hold_plans)
      held_plans.push_back(*plan);
    else
      queue_.push_back(PlanFound{plan->work, RunPlanning(*plan)});
  }
}

void TestSwarm::NoteAnswer(const Event& event) {
  // By now everything is carried out that followed from the event before.
  if (const auto* data = std::get_if<WorkerData>(&event); data && seen_.contains(data->worker))
    // Before Connect a host takes one control message's worth.
    CHECK(data->frame.byte_count() <=
              std::max<uint64_t>(message_limit(data->worker), 1 + wire::kMaxControlBytes),
          "the host would have cut off an answer");
  const auto* control = std::get_if<WorkerControl>(&event);
  if (!control || !seen_.contains(control->worker) || !control->message.has_prepared()) return;
  for (TestBinding& binding : seen_[control->worker].bindings)
    if (binding.id == BindingId(control->message.prepared().binding())) binding.loaded = true;
}

void TestSwarm::OnStep(WorkerId id, wire::Frame frame) {
  Seen& seen = seen_.at(id);
  const auto binding = std::find_if(
      seen.bindings.begin(), seen.bindings.end(),
      [&](const TestBinding& each) { return each.id == BindingId(frame.header.binding); });
  if (binding == seen.bindings.end() || !binding->loaded || binding->stage != frame.header.stage) {
    ADD_FAILURE() << "Worker " << id << " got a step of binding " << frame.header.binding
                  << " and stage " << frame.header.stage << ", which it has not loaded.";
    return;
  }
  Step step;
  step.layers = binding->layers;
  const std::vector<int32_t> values = ValuesOf(frame);
  auto at = values.begin();
  for (const wire::Run& run : frame.runs) {
    const std::vector<int32_t>& rows = step.rows.emplace_back(at, at + run.count);
    at += run.count;
    if (step.layers.first == 0) tokens_.Note(run.session, run.first_position, rows);
    step.known.push_back(tokens_.Of(run.session, run.first_position + run.count));
    runs_.push_back({id, binding->id, step.layers, run});
  }
  step.frame = std::move(frame);
  seen.steps.push_back(std::move(step));
  ++seen.steps_received;
  if (workers_[id].answer_steps) AnswerStep(id);
}

void TestSwarm::OnFork(WorkerId id, const wire::Fork& fork) {
  Seen& seen = seen_.at(id);
  seen.forks.push_back(std::to_string(fork.from) + " into " + std::to_string(fork.session) +
                       " at " + std::to_string(fork.position_count));
  for (const TestBinding& binding : seen.bindings)
    if (binding.id == BindingId(fork.binding) && binding.layers.first == 0)
      tokens_.Note(fork.session, 0, tokens_.Of(fork.from, fork.position_count));
  seen.behind_steps.emplace_back(seen.steps_received, fork);
  ChangeEngine(seen);
}

// Why a real engine would refuse the step; else what the worker holds has grown by it.
std::string TestSwarm::Compute(Seen& seen, const Step& step) {
  TestEngine before = seen.engine;
  for (size_t i = 0; i < step.rows.size(); ++i) {
    std::string why =
        seen.engine.Append(step.layers, step.frame.runs[i], step.rows[i], step.known[i]);
    if (why.empty()) continue;
    seen.engine = std::move(before);
    return why;
  }
  return {};
}

void TestSwarm::OnBindings(WorkerId id, const wire::pb::ServerMessage& message) {
  Seen& seen = seen_.at(id);
  if (message.has_prepare_stage()) {
    const auto& asked = message.prepare_stage();
    seen.newest_binding = BindingId(asked.binding());
    seen.bindings.push_back(
        {BindingId(asked.binding()),
         asked.stage(),
         {asked.layers().first(), asked.layers().end(), LayerFormOf(asked.is_hub())},
         asked.standby()});
  } else if (message.has_release()) {
    seen.bindings.clear();
  } else if (message.has_retire()) {
    const auto& kept = message.retire().bindings();
    std::erase_if(seen.bindings, [&](const TestBinding& binding) {
      return std::find(kept.begin(), kept.end(), binding.id.value()) == kept.end();
    });
  }
  seen.behind_steps.emplace_back(seen.steps_received, message);
  ChangeEngine(seen);
}

void TestSwarm::ChangeEngine(Seen& seen) {
  while (!seen.behind_steps.empty() && seen.behind_steps.front().first <= seen.steps_done) {
    const auto each = std::move(seen.behind_steps.front().second);
    seen.behind_steps.pop_front();
    if (const auto* fork = std::get_if<wire::Fork>(&each)) {
      for (const TestBinding& binding : seen.bindings)
        if (binding.id == BindingId(fork->binding)) {
          const std::string why = seen.engine.Fork(binding.layers, *fork);
          EXPECT_EQ(why, "") << seen.forks.back();
        }
      continue;
    }
    const auto& message = std::get<wire::pb::ServerMessage>(each);
    if (message.has_release()) {
      seen.engine.Release();
    } else if (message.has_prepare_stage()) {
      const auto& layers = message.prepare_stage().layers();
      seen.engine.Load({layers.first(), layers.end()});
    } else if (message.has_retire()) {
      std::vector<LayerSpan> kept;
      for (const auto& range : message.retire().keep())
        kept.push_back({range.first(), range.end()});
      seen.engine.KeepOnly(kept);
    } else {
      for (const uint32_t session : message.invalidate_sessions().sessions())
        seen.engine.Forget(session);
    }
  }
}

void TestSwarm::OnWholeFrame(WorkerId id, const wire::WholeFrame& frame) {
  Seen& seen = seen_[id];
  if (const auto* whole = std::get_if<wire::WholeModel>(&frame)) {
    seen.whole = whole->state;
    seen.whole_message = whole->message;
  } else if (std::get_if<wire::StopGenerating>(&frame)) {
    ++seen.stops;
  } else {
    seen.generates.push_back(std::get<wire::Generate>(frame));
    if (!workers_[id].answer_steps) return;
    while (seen_.contains(id) && !seen.generates.empty())
      TellTokens(id, seen.generates.front().interval);
  }
}

void TestSwarm::TellTokens(WorkerId id, uint32_t count, size_t which) {
  wire::Generate& generate = seen_.at(id).generates.at(which);
  wire::Tokens tokens;
  tokens.sequence = generate.sequence;
  tokens.binding = generate.binding;
  tokens.compute_us = workers_.at(id).compute_us * count;
  if (workers_.at(id).takes_time) now_ = now_ + Microseconds(tokens.compute_us);
  std::vector<int32_t> rows;
  while (!tokens.last && tokens.token_ids.size() < count) {
    rows.push_back(generate.token_id);
    generate.token_id = (generate.token_id + 1) % static_cast<int32_t>(options_.model.vocabulary);
    tokens.token_ids.push_back(generate.token_id);
    const auto& stops = generate.stop_ids;
    tokens.last = --generate.count == 0 ||
                  std::find(stops.begin(), stops.end(), generate.token_id) != stops.end();
  }
  if (count == 0) tokens.last = true;
  wire::Run run;
  run.session = generate.session;
  run.generation = generate.generation;
  run.first_position = generate.position;
  run.count = static_cast<uint16_t>(rows.size());
  tokens_.Note(run.session, run.first_position, rows);
  generate.position += run.count;
  EXPECT_EQ(seen_.at(id).engine.Append({0, static_cast<uint32_t>(options_.model.layers.size())},
                                       run, rows, tokens_.Of(run.session, generate.position)),
            "");
  auto& generates = seen_.at(id).generates;
  if (tokens.last) generates.erase(generates.begin() + static_cast<std::ptrdiff_t>(which));
  Feed(WorkerData{id, Slice(wire::EncodeWholeFrame(tokens))});
}

void TestSwarm::FailGenerate(WorkerId id, size_t which) {
  auto& generates = seen_.at(id).generates;
  const wire::Generate asked = generates.at(which);
  generates.erase(generates.begin() + static_cast<std::ptrdiff_t>(which));
  wire::pb::WorkerMessage message;
  message.mutable_step_failed()->set_sequence(asked.sequence);
  message.mutable_step_failed()->set_binding(asked.binding);
  message.mutable_step_failed()->set_code(std::string(ErrorCodeName(ErrorCode::kUnavailable)));
  Control(id, std::move(message));
}

void TestSwarm::AskWhole(WorkerId id, bool wanted, const std::string& api_key) {
  Feed(WorkerData{id, Slice(wire::EncodeWholeFrame(wire::RunHere{wanted, api_key}))});
}

void TestSwarm::OnControlAction(const SendControl& action) {
  const WorkerId id = action.worker;
  if (!seen_.contains(id)) return;
  TestWorker& worker = workers_[id];
  const auto& message = action.message;
  wire::pb::WorkerMessage reply;
  if (message.has_prepare_stage() || message.has_retire() || message.has_release() ||
      message.has_invalidate_sessions()) {
    OnBindings(id, message);
    if (message.has_prepare_stage() && worker.answer_prepare) Reply(id, Prepared(id));
  } else if (message.has_ping() && worker.answer_pings) {
    reply.mutable_pong()->set_nonce(message.ping().nonce());
    Reply(id, reply);
  } else if (message.has_download_layers() && worker.answer_downloads) {
    for (const uint32_t layer : message.download_layers().layers()) {
      reply.mutable_layer_downloaded()->set_layer(layer);
      Reply(id, reply);
    }
  } else if (message.has_hold_experts() && worker.answer_experts) {
    Reply(id, ExpertsHeld(message.hold_experts()));
  } else if (message.has_measure_speed() && worker.answer_measure) {
    for (const auto& range : message.measure_speed().ranges()) {
      auto& timing = *reply.mutable_measured()->add_timings();
      *timing.mutable_layers() = range;
      for (uint32_t i = 0; i < message.measure_speed().runs(); ++i)
        timing.add_run_us(uint64_t{worker.run_us} * (range.end() - range.first()));
    }
    reply.mutable_measured();
    for (const auto& probe : message.measure_speed().probes())
      *reply.mutable_measured()->add_answers() = AnswerOf(worker, probe);
    Reply(id, reply);
  }
}

// Every layer adds a quarter to a row's values, and its first layer's number to the last of them.
wire::pb::Measured::Answer TestSwarm::AnswerOf(const TestWorker& worker,
                                               const wire::pb::MeasureSpeed::Probe& probe) const {
  std::vector<float> rows =
      wire::ProbeRows(probe.seed(), probe.rows(), options_.model.hidden_columns);
  for (float& value : rows)
    value += worker.wrong_rows ? 0.0f : 0.25f + static_cast<float>(probe.layers().first());
  for (float& value : rows) value *= 1 + worker.row_error;
  wire::pb::Measured::Answer answer;
  const Sha256Digest digest = Sha256(AsBytes(std::span<const float>(rows)));
  answer.set_digest(std::string(AsText(digest)));
  answer.mutable_samples()->Assign(rows.begin(), rows.end());
  return answer;
}

wire::pb::WorkerMessage TestSwarm::ExpertsHeld(const wire::pb::HoldExperts& asked) const {
  uint64_t bytes = 0;
  for (const wire::pb::ExpertSet& set : asked.sets())
    for (const char bits : set.experts())
      bytes += static_cast<uint64_t>(std::popcount(static_cast<uint8_t>(bits))) *
               options_.model.layers[set.layer()].expert_bytes;
  wire::pb::WorkerMessage message;
  message.mutable_experts_held()->set_binding(asked.binding());
  message.mutable_experts_held()->set_used_bytes(bytes);
  return message;
}

void TestSwarm::AnswerExperts(WorkerId id) {
  workers_.at(id).answer_experts = true;
  AnswerExpertsOnce(id);
}

void TestSwarm::AnswerExpertsOnce(WorkerId id) {
  Control(id, ExpertsHeld(Last(id, wire::pb::ServerMessage::kHoldExperts).hold_experts()));
}

wire::pb::WorkerMessage TestSwarm::Prepared(WorkerId id) const {
  return Prepared(id, seen_.at(id).newest_binding);
}

wire::pb::WorkerMessage TestSwarm::Prepared(WorkerId, BindingId binding) const {
  wire::pb::WorkerMessage message;
  message.mutable_prepared()->set_binding(binding.value());
  message.mutable_prepared()->set_weight_factor(1);
  message.mutable_prepared()->set_used_bytes(1000);
  return message;
}

void TestSwarm::AnswerPrepares(WorkerId id) {
  for (const TestBinding& binding : std::vector(bindings(id)))
    if (!binding.loaded) Control(id, Prepared(id, binding.id));
}

wire::pb::WorkerMessage TestSwarm::Failed(BindingId binding, ErrorCode code) const {
  wire::pb::WorkerMessage message;
  message.mutable_failed()->set_binding(binding.value());
  message.mutable_failed()->set_code(std::string(ErrorCodeName(code)));
  return message;
}

Slice TestSwarm::ResultOf(WorkerId id) const {
  const wire::Frame& step = seen_.at(id).steps.front().frame;
  wire::FrameHeader header = step.header;
  header.type = wire::FrameType::kResult;
  header.dtype = DType::kF16;
  header.columns = 0;
  header.compute_us = workers_.at(id).compute_us + workers_.at(id).row_us * step.header.rows;
  const std::vector<int32_t> values = ValuesOf(step);
  const auto row_value = [&](uint32_t row) { return values[row]; };
  std::vector<uint8_t> payload;
  uint32_t row = 0;
  for (const wire::Run& run : step.runs) {
    const int32_t next =
        (row_value(row + run.count - 1u) + 1) % static_cast<int32_t>(options_.model.vocabulary);
    if (run.output == wire::OutputKind::kHidden) {
      header.columns = options_.model.hidden_columns;
      for (uint32_t i = 0; i < run.count; ++i) {
        const uint16_t half = F32ToF16(static_cast<float>(row_value(row + i)));
        payload.insert(payload.end(),
                       {static_cast<uint8_t>(half), static_cast<uint8_t>(half >> 8)});
        payload.resize(payload.size() + (header.columns - 1) * sizeof(half));
      }
    } else if (run.output == wire::OutputKind::kArgmax) {
      wire::AppendArgmax({next, 1.0f, 0.5f}, payload);
    } else if (run.output == wire::OutputKind::kCandidates) {
      wire::CandidatesResult result;
      result.logsumexp = 10;
      // Less than the candidates have together: nothing lies beyond them.
      result.scaled_sum = 1 + tail_mass;
      for (int32_t i = 0; i < run.candidate_count; ++i)
        result.candidates.push_back({(next + i) % static_cast<int32_t>(options_.model.vocabulary),
                                     10.0f - static_cast<float>(i)});
      wire::AppendCandidates(result, payload);
    } else if (run.output == wire::OutputKind::kDraw) {
      wire::DrawResult result;
      result.drawn = {next, 9.0f};
      result.logsumexp = 10;
      for (int32_t i = 0; i < run.candidate_count; ++i)
        result.best.push_back({(next + 1 + i) % static_cast<int32_t>(options_.model.vocabulary),
                               10.0f - static_cast<float>(i)});
      wire::AppendDraw(result, payload);
    } else if (run.output == wire::OutputKind::kLogits) {
      for (uint32_t i = 0; i < run.count; ++i)
        for (uint32_t id_at = 0; id_at < options_.model.head_columns(); ++id_at) {
          // A row that becomes an embedding is the token everywhere.
          const float logit = options_.model.embeds ? static_cast<float>(row_value(row + i))
                              : static_cast<int32_t>(id_at) == row_value(row + i) + 1 ? 1.0f
                                                                                      : 0.0f;
          uint8_t bytes[4];
          StoreLe(bytes, logit);
          payload.insert(payload.end(), bytes, bytes + 4);
        }
    }
    row += run.count;
  }
  std::vector<uint8_t> message = wire::EncodeFrameHead(header, step.runs, payload.size());
  message.insert(message.end(), payload.begin(), payload.end());
  return Slice(std::move(message));
}

void TestSwarm::AnswerStep(WorkerId id) {
  const Slice result = ResultOf(id);
  Seen& seen = seen_.at(id);
  const Step step = std::move(seen.steps.front());
  const TestWorker& worker = workers_.at(id);
  if (worker.takes_time)
    now_ = now_ + Microseconds(worker.compute_us + worker.row_us * step.frame.header.rows);
  seen.steps.pop_front();
  const std::string refusal = Compute(seen, step);
  ++seen.steps_done;
  ChangeEngine(seen);
  if (refusal.empty()) return Feed(WorkerData{id, result});
  // What was on its way behind a step that failed is bound to be refused.
  if (seen.steps_done > seen.steps_at_failure) ADD_FAILURE() << "Worker " << id << ": " << refusal;
  SayStepFailed(id, step.frame, ErrorCode::kInvalidArgument, refusal);
}

void TestSwarm::AnswerSteps(WorkerId id) {
  workers_.at(id).answer_steps = true;
  while (seen_.contains(id) && unanswered_steps(id) > 0) AnswerStep(id);
}

void TestSwarm::FailStep(WorkerId id, ErrorCode code, const std::string& text) {
  Seen& seen = seen_.at(id);
  const wire::Frame frame = std::move(seen.steps.front().frame);
  seen.steps.pop_front();
  ++seen.steps_done;
  seen.steps_at_failure = seen.steps_received;
  ChangeEngine(seen);
  SayStepFailed(id, frame, code, text);
}

void TestSwarm::SayStepFailed(WorkerId id, const wire::Frame& frame, ErrorCode code,
                              const std::string& text) {
  wire::pb::WorkerMessage message;
  message.mutable_step_failed()->set_sequence(frame.header.sequence);
  message.mutable_step_failed()->set_binding(frame.header.binding);
  message.mutable_step_failed()->set_stage(frame.header.stage);
  message.mutable_step_failed()->set_code(std::string(ErrorCodeName(code)));
  message.mutable_step_failed()->set_message(text);
  Control(id, std::move(message));
}

std::string TestSwarm::Rows(WorkerId id, uint32_t session) const {
  std::string text;
  std::optional<TestRun> open;
  const auto close = [&] {
    if (!open) return;
    text += (text.empty() ? "[" : " [") + std::to_string(open->run.first_position) + "," +
            std::to_string(open->run.first_position + open->run.count) + ") " +
            NameOf(open->run.output);
    open.reset();
  };
  for (const TestRun& each : runs_) {
    if (each.worker != id || each.run.session != session) continue;
    if (open && open->binding == each.binding && open->run.generation == each.run.generation &&
        open->run.output == each.run.output &&
        open->run.first_position + open->run.count == each.run.first_position) {
      open->run.count = static_cast<uint16_t>(open->run.count + each.run.count);
      continue;
    }
    close();
    open = each;
  }
  close();
  return text;
}

size_t TestSwarm::unanswered_steps(WorkerId id) const {
  return seen_.at(id).steps.size();
}

std::vector<int32_t> TestSwarm::Tokens(RequestId id) const {
  std::vector<int32_t> tokens;
  for (const Action& action : log_)
    if (const auto* emit = std::get_if<EmitToken>(&action); emit && emit->request == id)
      tokens.push_back(emit->token_id);
  return tokens;
}

std::optional<SessionTrace> TestSwarm::Trace(RequestId id) const {
  std::optional<SessionTrace> trace;
  for (const Action& action : log_)
    if (const auto* emit = std::get_if<EmitSession>(&action); emit && emit->request == id)
      trace = emit->trace;
  return trace;
}

std::vector<FinishRequest> TestSwarm::Ends(RequestId id) const {
  std::vector<FinishRequest> ends;
  for (const Action& action : log_)
    if (const auto* end = std::get_if<FinishRequest>(&action); end && end->request == id)
      ends.push_back(*end);
  return ends;
}

std::vector<std::string> TestSwarm::CloseReasons(WorkerId id) const {
  std::vector<std::string> reasons;
  for (const Action& action : log_)
    if (const auto* closed = std::get_if<CloseWorker>(&action); closed && closed->worker == id)
      reasons.push_back(closed->reason);
  return reasons;
}

std::string TestSwarm::Sent(WorkerId id) const {
  std::string names;
  for (const Action& action : log_) {
    const auto* control = std::get_if<SendControl>(&action);
    if (!control || control->worker != id || control->message.has_ping()) continue;
    const auto* field = wire::pb::ServerMessage::descriptor()->FindFieldByNumber(
        static_cast<int>(control->message.kind_case()));
    names += (names.empty() ? "" : " ") + field->name();
  }
  return names;
}

std::string TestSwarm::SuccessorsInPings(WorkerId id) const {
  std::string told;
  for (const Action& action : log_) {
    const auto* control = std::get_if<SendControl>(&action);
    if (!control || control->worker != id || !control->message.ping().has_successors()) continue;
    for (const auto& each : control->message.ping().successors().servers())
      told += each.url() + " ";
    told += "| ";
  }
  return told;
}

wire::pb::ServerMessage TestSwarm::Last(WorkerId id, wire::pb::ServerMessage::KindCase kind) const {
  for (auto action = log_.rbegin(); action != log_.rend(); ++action)
    if (const auto* control = std::get_if<SendControl>(&*action);
        control && control->worker == id && control->message.kind_case() == kind)
      return control->message;
  CHECK(false, "no such message was sent");
}

}  // namespace weft::swarm
