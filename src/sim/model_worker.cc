#include "sim/model_worker.h"

#include <algorithm>

#include "base/check.h"
#include "base/random.h"
#include "wire/version.h"

namespace weft::sim {
namespace {

Duration Us(double us) {
  return Microseconds(static_cast<int64_t>(us));
}

}  // namespace

ModelWorker::ModelWorker(const swarm::CoreOptions& options, const swarm::Costs& costs,
                         const HashModel& model, Device& device, Scheduler& scheduler,
                         uint64_t seed, Hooks hooks)
    : options_(options),
      costs_(costs),
      model_(model),
      device_(device),
      scheduler_(scheduler),
      random_(seed),
      hooks_(std::move(hooks)),
      loaded_(model.layer_count) {}

uint64_t ModelWorker::held_bytes() const {
  return costs_.MemoryBytes(device_.weight_factor, loaded_);
}

void ModelWorker::Reply(wire::pb::WorkerMessage message) {
  if (!frozen_) hooks_.send(std::move(message));
}

// ---- messages in, in order, one at a time ----

void ModelWorker::OnControl(wire::pb::ServerMessage message) {
  if (frozen_) return;
  if (message.has_ping() && !device_.pings_wait) {
    wire::pb::WorkerMessage pong;
    pong.mutable_pong()->set_nonce(message.ping().nonce());
    return Reply(std::move(pong));
  }
  Push(std::move(message));
}

void ModelWorker::OnFrame(Slice message) {
  if (frozen_) return;
  if (wire::IsGenerationFrame(message.bytes())) return OnGenerationFrame(message.bytes());
  Push(Step{std::move(message), scheduler_.now()});
}

void ModelWorker::Push(Job job) {
  jobs_.push_back(std::move(job));
  if (!running_) RunNext();
}

void ModelWorker::RunNext() {
  if (jobs_.empty() || frozen_ || stalled_) return;
  running_ = true;
  const Instant began = scheduler_.now();
  scheduler_.After(TimeOf(jobs_.front()), [self = weak_from_this(), began] {
    const auto worker = self.lock();
    if (!worker || worker->frozen_ || worker->stalled_) return;
    Job job = std::move(worker->jobs_.front());
    worker->jobs_.pop_front();
    std::visit([&](auto& each) { worker->Do(each, began); }, job);
    // A generation goes on until its last token.
    if (const auto* generation = std::get_if<Generation>(&job); generation && generation->began)
      worker->jobs_.push_front(std::move(job));
    worker->running_ = false;
    worker->RunNext();
  });
}

Duration ModelWorker::TimeOf(const Job& job) {
  if (const auto* load = std::get_if<Load>(&job)) {
    for (const Stage& stage : stages_)
      if (stage.epoch == load->epoch)
        return Us(1000.0 + (device_.needs_onnx ? 300'000.0 : 0.0) +
                  5000.0 * (stage.end - stage.first));
  } else if (const auto* step = std::get_if<Step>(&job)) {
    const auto frame = wire::DecodeFrame(step->message);
    if (!frame.ok()) return Us(1);
    for (const Stage& stage : stages_)
      if (stage.epoch == frame->header.epoch)
        return Us(device_.slowdown *
                  (device_.overhead_us + frame->header.rows * costs_.Cost(stage.first, stage.end) /
                                             device_.bytes_per_us));
  } else if (const auto* generation = std::get_if<Generation>(&job)) {
    const uint32_t rows = std::min<uint32_t>(generation->frame.interval, generation->frame.count);
    return Us(device_.slowdown * (device_.overhead_us + rows * costs_.Cost(0, model_.layer_count) /
                                                            device_.bytes_per_us));
  } else if (std::get<wire::pb::ServerMessage>(job).has_measure_speed()) {
    double us = 0;
    for (const auto& range : std::get<wire::pb::ServerMessage>(job).measure_speed().ranges())
      us += 7 *
            (device_.overhead_us + costs_.Cost(range.first(), range.end()) / device_.bytes_per_us);
    return Us(us * device_.slowdown);
  }
  return Us(5);
}

void ModelWorker::Do(wire::pb::ServerMessage& message, Instant) {
  using Kind = wire::pb::ServerMessage;
  wire::pb::WorkerMessage reply;
  if (message.kind_case() != Kind::kInit && !connected_ && message.kind_case() != Kind::kRefused)
    return Violation("a message came before Connect was sent");
  switch (message.kind_case()) {
    case Kind::kInit: {
      connected_ = true;
      auto& connect = *reply.mutable_connect();
      connect.set_protocol_version(wire::kProtocolVersion);
      connect.set_program_version(options_.model.program_version);
      connect.set_package_format(options_.model.package_format);
      connect.set_kind(device_.kind);
      connect.set_engine(device_.engine);
      connect.set_name(device_.id);
      connect.set_worker_id(device_.id);
      connect.set_memory_bytes(device_.memory_bytes);
      connect.set_weight_factor(device_.claimed_weight_factor);
      connect.set_download_bytes_per_s(device_.link_bytes_per_us * 1e6);
      connect.set_upload_bytes_per_s(device_.link_bytes_per_us * 1e6);
      connect.set_needs_onnx(device_.needs_onnx);
      for (uint32_t layer = 0; layer < model_.layer_count; ++layer)
        if (device_.disk.Has(layer)) connect.add_cached_layers(layer);
      return Reply(std::move(reply));
    }
    case Kind::kRefused:
      refused_ = true;
      return;
    case Kind::kPing:
      reply.mutable_pong()->set_nonce(message.ping().nonce());
      return Reply(std::move(reply));
    case Kind::kDownloadLayers: {
      const auto& layers = message.download_layers().layers();
      return Download({layers.begin(), layers.end()}, [] {});
    }
    case Kind::kMeasureSpeed: {
      for (const auto& range : message.measure_speed().ranges()) {
        if (!device_.disk.HasAll(range.first(), range.end()))
          Violation("asked to measure layers that it does not have");
        loaded_.AddRange(range.first(), range.end());
        auto& timing = *reply.mutable_measured()->add_timings();
        *timing.mutable_layers() = range;
        const double us =
            device_.slowdown *
            (device_.overhead_us + costs_.Cost(range.first(), range.end()) / device_.bytes_per_us);
        for (uint32_t i = 0; i < message.measure_speed().runs(); ++i)
          timing.add_run_us(static_cast<uint64_t>(us * (0.9 + 0.2 * random_.Uniform())));
      }
      return Reply(std::move(reply));
    }
    case Kind::kPrepareStage:
      return OnPrepare(message.prepare_stage());
    case Kind::kCommitStage:
      return Commit(message.commit_stage());
    case Kind::kRetire: {
      swarm::LayerSet keep(model_.layer_count);
      for (const auto& range : message.retire().keep()) keep.AddRange(range.first(), range.end());
      return Retire(keep);
    }
    case Kind::kInvalidateSessions:
      return Forget(message.invalidate_sessions());
    case Kind::kSampling:
      return OnSampling(message.sampling());
    case Kind::kRelease:
      ForgetAll();
      return Retire(swarm::LayerSet(model_.layer_count));
    default:
      return Violation("an unknown control message came");
  }
}

// ---- layers ----

void ModelWorker::Download(std::vector<uint32_t> layers, std::function<void()> done) {
  fetches_.push_back({std::move(layers), std::move(done)});
  if (!fetching_) DownloadNext();
}

void ModelWorker::DownloadNext() {
  if (fetches_.empty() || frozen_) return;
  Fetch& fetch = fetches_.front();
  if (fetch.layers.empty()) {
    const auto done = std::move(fetch.done);
    fetches_.pop_front();
    done();
    return DownloadNext();
  }
  fetching_ = true;
  const uint32_t layer = fetch.layers.front();
  const bool cached = device_.disk.Has(layer);
  const double bytes =
      cached ? 0 : static_cast<double>(options_.model.layers.at(layer).download_bytes);
  const Duration time = Us(50 + bytes / device_.link_bytes_per_us);
  scheduler_.After(time, [self = weak_from_this(), layer, cached, time, bytes] {
    const auto worker = self.lock();
    if (!worker || worker->frozen_) return;
    worker->fetching_ = false;
    worker->device_.disk.Add(layer);
    wire::pb::WorkerMessage message;
    message.mutable_layer_downloaded()->set_layer(layer);
    message.mutable_layer_downloaded()->set_byte_count(static_cast<uint64_t>(bytes));
    message.mutable_layer_downloaded()->set_elapsed_us(cached ? 0 : static_cast<uint64_t>(time.us));
    worker->Reply(std::move(message));
    auto& layers = worker->fetches_.front().layers;
    layers.erase(layers.begin());
    worker->DownloadNext();
  });
}

void ModelWorker::OnPrepare(const wire::pb::PrepareStage& prepare) {
  const Stage stage = {prepare.epoch(), prepare.stage(), prepare.layers().first(),
                       prepare.layers().end()};
  if (stage.first >= stage.end || stage.end > model_.layer_count)
    return Violation("asked to prepare a range that the model does not have");
  if (!stages_.empty() && stage.epoch <= stages_.back().epoch)
    Violation("asked to prepare an epoch that is not newer");
  // A newer PrepareStage replaces an unfinished one.
  std::erase_if(stages_, [](const Stage& other) { return !other.committed; });
  stages_.push_back(stage);
  std::vector<uint32_t> layers;
  for (uint32_t layer = stage.first; layer < stage.end; ++layer) layers.push_back(layer);
  Download(std::move(layers), [this, epoch = stage.epoch] { Push(Load{epoch}); });
}

void ModelWorker::Do(const Load& load, Instant) {
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& s) { return s.epoch == load.epoch; });
  if (stage == stages_.end()) return;  // replaced or retired
  wire::pb::WorkerMessage reply;
  if (random_.Uniform() < device_.prepare_failure) {
    stages_.erase(stage);
    reply.mutable_failed()->set_epoch(load.epoch);
    reply.mutable_failed()->set_code("io");
    reply.mutable_failed()->set_message("The simulated disk failed.");
    return Reply(std::move(reply));
  }
  swarm::LayerSet both = loaded_;
  both.AddRange(stage->first, stage->end);
  if (costs_.MemoryBytes(device_.weight_factor, both) > device_.memory_bytes) {
    stages_.erase(stage);
    reply.mutable_failed()->set_epoch(load.epoch);
    reply.mutable_failed()->set_code("out_of_memory");
    reply.mutable_failed()->set_message("The layers do not fit the memory offered.");
    return Reply(std::move(reply));
  }
  loaded_ = both;
  stage->loaded = true;
  reply.mutable_prepared()->set_epoch(load.epoch);
  reply.mutable_prepared()->set_weight_factor(device_.weight_factor);
  reply.mutable_prepared()->set_used_bytes(held_bytes());
  device_.claimed_weight_factor = device_.weight_factor;
  Reply(std::move(reply));
}

void ModelWorker::Commit(const wire::pb::CommitStage& commit) {
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& s) { return s.epoch == commit.epoch(); });
  if (stage == stages_.end() || !stage->loaded)
    return Violation("told to commit epoch " + std::to_string(commit.epoch()) +
                     ", which is not prepared");
  if (random_.Uniform() < device_.commit_crash) return hooks_.crash();
  stage->committed = true;
  committed_epoch_ = commit.epoch();
  wire::pb::WorkerMessage reply;
  reply.mutable_committed()->set_epoch(commit.epoch());
  Reply(std::move(reply));
}

void ModelWorker::Retire(const swarm::LayerSet& keep) {
  for (uint32_t layer = 0; layer < model_.layer_count; ++layer) {
    if (keep.Has(layer)) continue;
    loaded_.Remove(layer);
    for (auto& [id, session] : sessions_) session.chains.erase(layer);
  }
  std::erase_if(stages_, [&](const Stage& stage) { return !keep.HasAll(stage.first, stage.end); });
}

// ---- steps ----

// The rules of engine/engine.h for one run; on success the session stands at the run's first
// position.
Status ModelWorker::TakeRun(const wire::Run& run, const Stage& stage) {
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument, "Session " + std::to_string(run.session) + " " + why);
  };
  auto found = sessions_.find(run.session);
  if (found == sessions_.end()) {
    if (run.first_position != 0) return refuse("is unknown and does not begin at 0.");
    found = sessions_.try_emplace(run.session).first;
    found->second.generation = run.generation;
    if (sessions_.size() > options_.session_count)
      Violation("told to hold " + std::to_string(sessions_.size()) + " sessions");
  }
  Session& session = found->second;
  for (uint32_t layer = stage.first; layer < stage.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
    const size_t length = session.chains[layer].size();
    if (run.generation == session.generation ? run.first_position != length
                                             : run.first_position > length)
      return refuse("holds " + std::to_string(length) + " positions of layer " +
                    std::to_string(layer) + ", the run begins at " +
                    std::to_string(run.first_position) + ".");
  }
  if (run.generation < session.generation) return refuse("is in a later generation.");
  if (run.generation > session.generation) {
    session.generation = run.generation;
    for (auto& [layer, chain] : session.chains)
      chain.resize(std::min<size_t>(chain.size(), run.first_position));
  }
  if (run.first_position + run.count > options_.context_length)
    Violation("a session passes the context");
  return OkStatus();
}

void ModelWorker::Forget(const wire::pb::InvalidateSessions& message) {
  for (const uint32_t session : message.sessions()) {
    sessions_.erase(session);
    told_.erase(session);
  }
}

void ModelWorker::OnSampling(const wire::pb::Sampling& sampling) {
  Told& told = told_[sampling.session()];
  if (sampling.has_params()) {
    const wire::pb::SamplingParams& params = sampling.params();
    told = {sampling.generation(), {}, {}};
    told.params.temperature = params.temperature();
    told.params.top_k = static_cast<int32_t>(params.top_k());
    told.params.top_p = params.top_p();
    told.params.min_p = params.min_p();
    told.params.repetition_penalty = params.repetition_penalty();
    told.params.presence_penalty = params.presence_penalty();
    told.params.frequency_penalty = params.frequency_penalty();
    told.params.seed = params.seed();
    for (int i = 0; i < params.biases_size(); ++i)
      told.params.logit_bias.push_back(
          {static_cast<int32_t>(params.bias_tokens(i)), params.biases(i)});
  } else if (told.generation != sampling.generation()) {
    Violation("told to continue the sampling of a generation that was not begun");
  }
  told.tokens.insert(told.tokens.end(), sampling.tokens().begin(), sampling.tokens().end());
}

// Candidates or a draw for the token behind `position`.
void ModelWorker::Choose(const wire::Run& run, uint32_t position, uint64_t row,
                         std::vector<uint8_t>& payload) {
  const Told& told = told_[run.session];
  if (told.generation != run.generation || !told.params.seed)
    Violation("asked to choose a token without having been told how");
  if (told.params.HasPenalties() && told.tokens.size() != position + 1u)
    Violation("asked to choose a token without having been told those before it");
  const std::vector<float> raw = model_.Logits(row);
  std::vector<float> logits = raw;
  ChangeLogits(told.params, told.tokens, logits);
  if (run.output == wire::OutputKind::kCandidates) {
    const float temperature = told.params.IsGreedy() ? 1 : told.params.temperature;
    return wire::AppendCandidates(
        HashModel::Candidates(logits, raw, run.candidate_count, temperature), payload);
  }
  const int32_t token_id = SampleLogits(
      told.params, told.tokens, raw, CounterDouble(told.params.seed.value_or(0), position + 1u, 0));
  wire::CandidatesResult best = HashModel::Candidates(raw, raw, run.candidate_count, 1);
  wire::AppendDraw(
      {{token_id, raw[static_cast<size_t>(token_id)]}, best.logsumexp, std::move(best.candidates)},
      payload);
}

void ModelWorker::RunRow(const wire::Run& run, const Stage& stage, uint32_t position, uint64_t row,
                         std::vector<uint8_t>& payload) {
  Session& session = sessions_.at(run.session);
  for (uint32_t layer = stage.first; layer < stage.end; ++layer) {
    if (!model_.IsTransformer(layer)) continue;
    std::vector<uint64_t>& chain = session.chains[layer];
    chain.push_back(HashModel::Mix(chain.empty() ? 0 : chain.back(), row));
    row = HashModel::Mix(row, chain.back());
  }
  const bool last_row = position + 1 == run.first_position + run.count;
  if (run.output == wire::OutputKind::kHidden) {
    payload.resize(payload.size() + sizeof(row));
    StoreLe(&payload[payload.size() - sizeof(row)], row);
  } else if (run.output == wire::OutputKind::kArgmax && last_row) {
    wire::AppendArgmax(model_.Argmax(row), payload);
  } else if ((run.output == wire::OutputKind::kCandidates ||
              run.output == wire::OutputKind::kDraw) &&
             last_row) {
    Choose(run, position, row, payload);
  } else if (run.output == wire::OutputKind::kLogits) {
    const size_t at = payload.size();
    payload.resize(at + model_.vocabulary * sizeof(float));
    for (uint32_t rank = 0; rank < model_.vocabulary; ++rank)
      StoreLe(&payload[at + static_cast<size_t>(model_.TokenOfRank(row, rank)) * sizeof(float)],
              HashModel::LogitOfRank(rank));
  }
}

Result<std::vector<uint8_t>> ModelWorker::Compute(const wire::Frame& frame, uint32_t compute_us) {
  const wire::FrameHeader& header = frame.header;
  const auto stage = std::find_if(stages_.begin(), stages_.end(),
                                  [&](const Stage& s) { return s.epoch == header.epoch; });
  if (stage == stages_.end() || !stage->committed || header.epoch != committed_epoch_ ||
      stage->stage != header.stage) {
    Violation("got a step of epoch " + std::to_string(header.epoch) + " stage " +
              std::to_string(header.stage) + ", committed is " + std::to_string(committed_epoch_));
    return Error(ErrorCode::kInvalidArgument, "This stage is not committed here.");
  }
  if (device_.needs_onnx && frame.runs.size() > 1)
    Violation("an ONNX worker got several runs in a frame");
  const bool first = stage->first == 0, last = stage->end == model_.layer_count;
  if (header.dtype != (first ? DType::kI32 : options_.model.boundary_dtype) ||
      header.columns != (first ? 1 : options_.model.hidden_columns))
    Violation("a step has the wrong kind of rows");
  for (const wire::Run& run : frame.runs) {
    if ((run.output == wire::OutputKind::kHidden) == last)
      Violation("a run asks for the wrong output");
    const Status taken = TakeRun(run, *stage);
    if (taken.ok()) continue;
    // Only a step that followed one which was failed on purpose may be refused.
    const auto failed = failed_.find(run.session);
    if (failed == failed_.end() || failed->second != run.generation)
      Violation("refuses a step: " + taken.error().message());
    return taken.error();
  }
  std::vector<uint8_t> payload;
  const uint8_t* input = frame.payload.bytes().data();
  for (const wire::Run& run : frame.runs)
    for (uint32_t i = 0; i < run.count; ++i) {
      const uint32_t position = run.first_position + i;
      const uint64_t row =
          first ? HashModel::Embed(LoadLe<int32_t>(input), position) : LoadLe<uint64_t>(input);
      input += first ? sizeof(int32_t) : sizeof(uint64_t);
      RunRow(run, *stage, position, row, payload);
    }
  wire::FrameHeader reply = header;
  reply.type = wire::FrameType::kResult;
  reply.dtype = options_.model.boundary_dtype;
  reply.columns = last ? 0 : options_.model.hidden_columns;
  reply.compute_us = compute_us;
  std::vector<uint8_t> bytes = wire::EncodeFrameHead(reply, frame.runs, payload.size());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

void ModelWorker::Do(const Step& step, Instant began) {
  const auto frame = wire::DecodeFrame(step.message);
  if (!frame.ok()) return Violation("got a malformed frame: " + frame.error().message());
  const bool fails = random_.Uniform() < device_.step_failure;
  const bool numbers = random_.Uniform() < device_.numbers_failure;
  Result<std::vector<uint8_t>> bytes =
      Error(ErrorCode::kUnavailable, "The simulated device hiccuped.");
  if (fails || numbers) {
    if (numbers)
      bytes = Error(ErrorCode::kInvalidData, "Layer 3 gave 7 values that are not finite.");
    for (const wire::Run& run : frame->runs) {
      failed_[run.session] = run.generation;
      if (numbers && frame->runs.size() == 1) hooks_.numbers_failed(run.session);
    }
  } else {
    bytes = Compute(*frame, static_cast<uint32_t>((scheduler_.now() - began).us));
  }
  if (bytes.ok()) return SendFrame(std::move(bytes).value());
  FailStep(frame->header.sequence, frame->header.epoch, frame->header.stage, bytes.error());
}

void ModelWorker::FailStep(uint32_t sequence, uint32_t epoch, uint32_t stage, const Error& error) {
  wire::pb::WorkerMessage reply;
  reply.mutable_step_failed()->set_sequence(sequence);
  reply.mutable_step_failed()->set_epoch(epoch);
  reply.mutable_step_failed()->set_stage(stage);
  reply.mutable_step_failed()->set_code(std::string(ErrorCodeName(error.code())));
  reply.mutable_step_failed()->set_message(error.message());
  Reply(std::move(reply));
}

// Sends a result, or on bad days something else: every change is in the head of the frame or its
// length, where it can be noticed; a flipped bit in a hidden row cannot.
void ModelWorker::SendFrame(std::vector<uint8_t> message) {
  if (frozen_) return;
  MaybeIllegal();
  if (random_.Uniform() < device_.corrupt_frame) {
    const size_t head_bytes = wire::kHeaderBytes + wire::kRunBytes;
    // The two times are the only bytes of a head that may be anything.
    size_t at = random_.Below(head_bytes);
    if (at >= 34 && at < 40) at = 8;
    switch (random_.Below(4)) {
      case 0:
        message[at] ^= static_cast<uint8_t>(1u << random_.Below(8));
        break;
      case 1:
        message.resize(random_.Below(message.size()));
        break;
      case 2:
        message.push_back(0);
        break;
      default:
        hooks_.send(Slice(message));
        break;  // twice
    }
  }
  hooks_.send(Slice(std::move(message)));
}

void ModelWorker::MaybeIllegal() {
  if (random_.Uniform() >= device_.illegal_message) return;
  wire::pb::WorkerMessage message;
  switch (random_.Below(7)) {
    case 0:
      break;  // no kind at all
    case 1:
      message.mutable_connect();
      break;
    case 2:
      message.mutable_prepared()->set_epoch(1u << 30);
      break;
    case 3:
      message.mutable_committed()->set_epoch(committed_epoch_);
      break;
    case 4:
      message.mutable_measured();
      break;
    case 5:
      message.mutable_step_failed()->set_sequence(1u << 31);
      break;
    default:
      message.mutable_layer_downloaded()->set_layer(model_.layer_count);
      break;
  }
  hooks_.send(std::move(message));
}

}  // namespace weft::sim
