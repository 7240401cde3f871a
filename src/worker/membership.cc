#include "worker/membership.h"

#include <algorithm>

#include "base/check.h"
#include "wire/fork_frame.h"
#include "wire/version.h"
#include "worker/answers.h"

namespace weft::worker {

namespace pb = wire::pb;

namespace {

// Of a Pong, whatever a Ping asks for.
constexpr uint32_t kMostPadding = 32 * 1024;

std::vector<uint32_t> LayersOf(const std::vector<engine::LayerRange>& ranges) {
  std::vector<uint32_t> layers;
  for (const engine::LayerRange range : ranges)
    for (uint32_t layer = range.first; layer < range.end; ++layer)
      if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
  return layers;
}

bool Unloads(const Work& work) {
  return std::holds_alternative<KeepLayers>(work) || std::holds_alternative<ReleaseAll>(work);
}

// What leaves less behind, whoever asked for it.
bool Forgets(const Work& work) {
  return Unloads(work) || std::holds_alternative<ReleaseSessions>(work) ||
         std::holds_alternative<AbandonSteps>(work);
}

// Of no use to a worker that goes.
bool BringsLoads(const pb::ServerMessage& message) {
  return message.has_download_layers() || message.has_measure_speed() ||
         message.has_prepare_stage() || message.has_hold_experts();
}

}  // namespace

std::vector<Action> Membership::Handle(Event event, Instant now) {
  now_ = now;
  if (!ended_) std::visit([this](auto& each) { On(each); }, event);
  if (!ended_) Advance();
  return std::exchange(actions_, {});
}

// ---- messages ----

void Membership::On(MessageReceived& event) {
  if (!connected_) return;
  const ByteSpan bytes = event.message.bytes();
  if (bytes.empty()) return Violation("The server sent an empty message.");
  if (wire::IsGenerationFrame(bytes)) return OnGeneration(bytes);
  if (wire::IsForkFrame(bytes)) return OnFork(bytes);
  if (wire::IsShardMessage(bytes)) return OnShards(event.message);
  if (bytes[0] != wire::kControlByte) return OnFrame(event.message);
  pb::ServerMessage control;
  const ByteSpan body = bytes.subspan(1);
  if (!control.ParseFromArray(body.data(), static_cast<int>(body.size())))
    return Violation("The server sent a control message that cannot be parsed.");
  OnControl(std::move(control));
}

void Membership::OnControl(pb::ServerMessage message) {
  using Kind = pb::ServerMessage;
  switch (message.kind_case()) {
    case Kind::kPing: {
      pb::WorkerMessage reply;
      reply.mutable_pong()->set_nonce(message.ping().nonce());
      reply.mutable_pong()->set_padding(
          std::string(std::min(message.ping().answer_bytes(), kMostPadding), '\0'));
      Say(std::move(reply));
      return SayHeartbeats();
    }
    case Kind::kInit:
      return OnInit(message.init());
    case Kind::kRefused:
      return OnRefused(message.refused());
    default:
      break;
  }
  if (!joined_) return Violation("The server sent work before Init was answered.");
  if (leaving_ && BringsLoads(message)) return;
  switch (message.kind_case()) {
    case Kind::kDownloadLayers:
      return OnDownloadLayers(message.download_layers());
    case Kind::kMeasureSpeed:
      return OnMeasureSpeed(message.measure_speed());
    case Kind::kPrepareStage:
      return OnPrepareStage(message.prepare_stage());
    case Kind::kRetire:
      return OnRetire(message.retire());
    case Kind::kInvalidateSessions:
      return OnInvalidateSessions(message.invalidate_sessions());
    case Kind::kSampling:
      return waiting_.push_back(Work(TakeSampling{std::move(*message.mutable_sampling())}));
    case Kind::kRelease:
      return OnRelease();
    case Kind::kHoldExperts:
      return OnHoldExperts(message.hold_experts());
    case Kind::kExpertHolders:
      return OnExpertHolders(message.expert_holders());
    default:
      return End(Error(ErrorCode::kUnsupported,
                       "The server sent a control message that this worker does not know: update "
                       "weft on this device."));
  }
}

void Membership::OnInit(const pb::Init& init) {
  if (init_seen_) return Violation("The server sent Init twice.");
  init_seen_ = true;
  if (Status status = CheckInit(init); !status.ok()) return End(std::move(status).error());
  layer_count_ = init.layer_count();
  context_length_ = init.context_length();
  session_count_ = init.session_count();
  init_ = init;
  actions_.push_back(LimitSilence{SilenceLimit(init)});
  if (!package_) return;
  if (keeping_.Fits(init, now_))
    keeping_.Resume();
  else
    Forget();
}

void Membership::AnswerInit() {
  if (!init_ || joining_ || taking_stock_) return;
  if (package_) {
    taking_stock_ = true;
    TakeStock stock;
    for (const StageTable::Binding& binding : stages_.bindings()) {
      pb::HeldBinding& held = stock.bindings.emplace_back();
      held.set_epoch(binding.epoch);
      held.set_stage(binding.stage);
      held.mutable_layers()->set_first(binding.layers.first);
      held.mutable_layers()->set_end(binding.layers.end);
      stock.shards.push_back(binding.shards);
    }
    stock.sessions.assign(sessions_.begin(), sessions_.end());
    return waiting_.push_back(Work(std::move(stock)));
  }
  if (!IsIdle()) return;  // what is to go is not gone yet
  joining_ = true;
  joins_in_vain_ = false;
  Join join;
  std::copy(init_->package_digest().begin(), init_->package_digest().end(),
            join.package_digest.begin());
  join.probe_bytes = init_->probe_bytes();
  actions_.push_back(join);
}

void Membership::OnRefused(const pb::Refused& refused) {
  const bool later = refused.code() == ErrorCodeName(ErrorCode::kUnavailable);
  End(Error(later ? ErrorCode::kUnavailable : ErrorCode::kPermissionDenied, refused.message()));
}

void Membership::On(Joined& event) {
  joining_ = false;
  if (joins_in_vain_) return;  // for a connection that is gone
  if (!event.package.ok()) return End(std::move(event.package).error());
  if (event.package->layer_count != layer_count_)
    return Violation("The package has " + std::to_string(event.package->layer_count) +
                     " layers, the server announced " + std::to_string(layer_count_) + ".");
  package_ = std::move(event.package).value();
  keeping_.Begin(*init_);
  SayConnect({});
}

void Membership::OnStock(Stock stock) {
  taking_stock_ = false;
  std::set<uint32_t> held;
  for (const pb::HeldBinding& binding : stock.bindings)
    held.insert(binding.sessions().begin(), binding.sessions().end());
  // The server hears nothing of the others, and may use their numbers again.
  ReleaseSessions release;
  std::set_difference(sessions_.begin(), sessions_.end(), held.begin(), held.end(),
                      std::back_inserter(release.sessions));
  if (!release.sessions.empty()) waiting_.push_front(Work(std::move(release)));
  sessions_ = std::move(held);
  SayConnect(std::move(stock.bindings));
}

void Membership::SayConnect(std::vector<pb::HeldBinding> held) {
  joined_ = true;
  const uint32_t places = TokenBatch(offer_, *init_);
  generations_.Begin(places);
  init_.reset();
  pb::WorkerMessage message;
  *message.mutable_connect() = MakeConnect(offer_, *package_);
  message.mutable_connect()->set_makes_tokens(places);
  message.mutable_connect()->mutable_held()->Assign(held.begin(), held.end());
  Say(std::move(message));
}

std::optional<engine::LayerRange> Membership::Checked(const pb::LayerRange& range) {
  if (range.first() < range.end() && range.end() <= layer_count_)
    return engine::LayerRange{range.first(), range.end()};
  Violation("The server named layers " + std::to_string(range.first()) + " to " +
            std::to_string(range.end()) + " of a model with " + std::to_string(layer_count_) + ".");
  return std::nullopt;
}

void Membership::OnDownloadLayers(const pb::DownloadLayers& message) {
  for (const uint32_t layer : message.layers())
    if (layer >= layer_count_)
      return Violation("The server named layer " + std::to_string(layer) + " of a model with " +
                       std::to_string(layer_count_) + ".");
  fetches_.Add(next_ticket_++, FetchQueue::Urgency::kStandby,
               {message.layers().begin(), message.layers().end()});
}

void Membership::OnPrepareStage(const pb::PrepareStage& message) {
  const auto range = Checked(message.layers());
  if (!range) return;
  if (message.shards() && !offer_.can_be_hub)
    return Violation("The server asked a worker that cannot be a hub to be one.");
  if (!stages_.Prepare(message.epoch(), message.stage(), *range, message.shards()))
    return Violation("The server asked for epoch " + std::to_string(message.epoch()) +
                     " to be prepared, expected one that is newer than those before, and at most " +
                     std::to_string(StageTable::kMaxBindings) + " at a time.");
  Add({message.epoch(), {*range}, 0, message.standby(), message.shards()});
}

void Membership::OnRetire(const pb::Retire& message) {
  KeepLayers keep;
  for (const pb::LayerRange& range : message.keep()) {
    const auto checked = Checked(range);
    if (!checked) return;
    keep.ranges.push_back(*checked);
  }
  const std::vector<uint32_t> epochs(message.epochs().begin(), message.epochs().end());
  stages_.KeepOnly(epochs, keep.ranges);
  kept_ = keep.ranges;
  keep.hubs = stages_.Ranges(true);
  DropUnwantedLoads();
  StopOver();
  ++unloads_waiting_;
  waiting_.push_back(Work(std::move(keep)));
}

void Membership::OnInvalidateSessions(const pb::InvalidateSessions& message) {
  ReleaseSessions release;
  for (const uint32_t session : message.sessions()) {
    sessions_.erase(session);
    release.sessions.push_back(session);
  }
  StopOver();
  waiting_.push_back(Work(std::move(release)));
}

void Membership::OnRelease() {
  stages_.Clear();
  experts_.Clear();
  DropExpertLoads();
  kept_.clear();
  sessions_.clear();
  StopOver();
  DropUnwantedLoads();
  ++unloads_waiting_;
  waiting_.push_back(Work(ReleaseAll{}));
}

// ---- steps ----

Status Membership::TakeSession(uint32_t session, uint64_t end_position) {
  const auto refuse = [](std::string sentence) {
    return Error(ErrorCode::kInvalidArgument, std::move(sentence));
  };
  if (session == kMeasureSession)
    return refuse("Session " + std::to_string(session) + " is the one that measurements use.");
  if (context_length_ > 0 && end_position > context_length_)
    return refuse("Session " + std::to_string(session) + " would hold " +
                  std::to_string(end_position) + " positions, expected at most " +
                  std::to_string(context_length_) + ".");
  sessions_.insert(session);
  if (session_count_ == 0 || sessions_.size() <= session_count_) return OkStatus();
  sessions_.erase(session);
  return refuse("Session " + std::to_string(session) + " would be held beside " +
                std::to_string(session_count_) + " others, expected at most as many in all.");
}

Result<StageTable::Binding> Membership::BindingFor(const wire::Frame& frame) {
  const StageTable::Binding* binding = stages_.ToRun(frame.header.epoch, frame.header.stage);
  if (frame.header.type != wire::FrameType::kStep || binding == nullptr)
    return Error(ErrorCode::kInvalidArgument,
                 "Stage " + std::to_string(frame.header.stage) + " of epoch " +
                     std::to_string(frame.header.epoch) + " is not prepared on this worker.");
  if (offer_.needs_onnx && frame.runs.size() > 1)
    return Error(ErrorCode::kInvalidArgument, "A step has " + std::to_string(frame.runs.size()) +
                                                  " runs, expected one: this worker runs ONNX.");
  for (const wire::Run& run : frame.runs)
    TRY(TakeSession(run.session, uint64_t{run.first_position} + run.count));
  return *binding;
}

void Membership::OnFrame(const Slice& message) {
  auto frame = wire::DecodeFrame(message);
  if (!frame.ok()) return End(std::move(frame).error());
  const auto binding = BindingFor(*frame);
  if (binding.ok())
    return waiting_.push_back(
        Work(RunStep{std::move(*frame), binding->layers, now_, binding->shards}));
  SayInOrder(StepFailedMessage(frame->header.sequence, frame->header.epoch, frame->header.stage,
                               binding.error()));
}

void Membership::OnGeneration(ByteSpan message) {
  if (offer_.makes_tokens == 0)
    return Violation("The server sent a generation frame to a worker that chooses no tokens.");
  auto frame = wire::DecodeGeneration(message);
  if (!frame.ok()) return End(std::move(frame).error());
  if (auto* generate = std::get_if<wire::Generate>(&*frame))
    return OnGenerate(std::move(*generate));
  if (const auto* stop = std::get_if<wire::StopGenerating>(&*frame)) {
    generations_.Stop(stop->sequence);
    return;
  }
  if (std::holds_alternative<wire::WholeModel>(*frame)) return;  // for a user's eyes
  Violation("The server sent a frame that only workers send.");
}

void Membership::OnGenerate(wire::Generate generate) {
  const StageTable::Binding* binding = stages_.ToRun(generate.epoch, 0);
  Status status = OkStatus();
  if (!joined_ || binding == nullptr || binding->shards || binding->layers.first != 0 ||
      binding->layers.end != layer_count_)
    status = Error(ErrorCode::kInvalidArgument, "The whole model of epoch " +
                                                    std::to_string(generate.epoch) +
                                                    " is not prepared on this worker.");
  else
    status = TakeSession(generate.session, uint64_t{generate.position} + generate.count);
  if (!status.ok())
    return SayInOrder(StepFailedMessage(generate.sequence, generate.epoch, 0, status.error()));
  generations_.Add(generate);
  waiting_.push_back(std::move(generate));
}

// Generates go on between other work, and would be found without their session or their layers.
void Membership::StopOver() {
  generations_.StopWhere([this](uint32_t session, uint32_t epoch) {
    return !sessions_.contains(session) || !stages_.Has(epoch);
  });
}

void Membership::On(WholeWished& event) {
  if (!joined_) return;
  SayFrame({Slice(wire::EncodeGeneration(wire::RunHere{event.wanted, event.api_key}))});
}

// ---- layers on their way into the engine ----

void Membership::Add(Load load) {
  const uint32_t ticket = next_ticket_++;
  fetches_.Add(ticket, load.standby ? FetchQueue::Urgency::kStandby : FetchQueue::Urgency::kStage,
               LayersOf(load.ranges));
  loads_.emplace(ticket, std::move(load));
}

// Loads of bindings that are gone: retired or released.
void Membership::DropUnwantedLoads() {
  for (auto load = loads_.begin(); load != loads_.end();) {
    const auto each = load++;
    const bool is_binding = each->second.epoch != 0 && !each->second.experts;
    if (is_binding && !stages_.Has(each->second.epoch)) DropLoad(each);
  }
}

void Membership::DropExpertLoads() {
  for (auto load = loads_.begin(); load != loads_.end();) {
    const auto each = load++;
    if (each->second.experts) DropLoad(each);
  }
}

void Membership::DropLoad(std::map<uint32_t, Load>::iterator load) {
  fetches_.Drop(load->first);
  std::erase(fetched_, load->first);
  loads_.erase(load);
}

KeepLayers Membership::WhatIsNeeded() const {
  KeepLayers keep{stages_.Ranges(false), stages_.Ranges(true)};
  const std::vector<engine::LayerRange> kept = KeptWhole();
  keep.ranges.insert(keep.ranges.end(), kept.begin(), kept.end());
  // Steps that wait came before whatever has dropped their binding since, and are still computed.
  bool generates = generations_.has_joined();
  for (const Waiting& each : waiting_) {
    const auto* work = std::get_if<Work>(&each);
    if (const auto* step = work ? std::get_if<RunStep>(work) : nullptr)
      (step->shards ? keep.hubs : keep.ranges).push_back(step->layers);
    generates = generates || std::holds_alternative<wire::Generate>(each);
  }
  if (generates) keep.ranges.push_back({0, layer_count_});
  return keep;
}

void Membership::FailLoad(uint32_t ticket, const Error& error) {
  const auto load = loads_.find(ticket);
  const uint32_t epoch = load == loads_.end() ? 0 : load->second.epoch;
  if (epoch != 0 && !load->second.experts) stages_.Remove(epoch);
  if (load != loads_.end()) loads_.erase(load);
  Say(FailedMessage(epoch, error));
}

void Membership::On(FetchProgressed& event) {
  pb::WorkerMessage message;
  message.mutable_download_progress()->set_done_bytes(event.done_bytes);
  message.mutable_download_progress()->set_total_bytes(event.total_bytes);
  Say(std::move(message));
}

void Membership::On(LayerFetched& event) {
  fetches_.LayerCame(event.layer);
  if (package_) {
    std::vector<uint32_t>& cached = package_->cached_layers;
    const auto place = std::lower_bound(cached.begin(), cached.end(), event.layer);
    if (place == cached.end() || *place != event.layer) cached.insert(place, event.layer);
  }
  pb::WorkerMessage message;
  message.mutable_layer_downloaded()->set_layer(event.layer);
  message.mutable_layer_downloaded()->set_byte_count(event.byte_count);
  message.mutable_layer_downloaded()->set_elapsed_us(
      event.byte_count == 0 ? 0 : static_cast<uint64_t>(std::max<int64_t>(1, event.elapsed.us)));
  Say(std::move(message));
}

void Membership::On(FetchEnded& event) {
  using End = FetchQueue::End;
  const bool interrupted =
      !event.status.ok() && event.status.error().code() == ErrorCode::kCancelled;
  const auto ticket = fetches_.Ended(event.status.ok() ? End::kComplete
                                     : interrupted     ? End::kInterrupted
                                                       : End::kFailed);
  if (!ticket) return;
  if (!event.status.ok()) return FailLoad(*ticket, event.status.error());
  if (loads_.contains(*ticket)) fetched_.push_back(*ticket);  // else it was for standby
}

void Membership::On(LayersRead& event) {
  CHECK(reading_.has_value());
  const uint32_t ticket = *reading_;
  read_interrupted_ = true;  // too late for that
  if (!loads_.contains(ticket)) return reading_.reset();
  if (!event.layers.ok()) {
    reading_.reset();
    return FailLoad(ticket, event.layers.error());
  }
  waiting_.push_back(Install{ticket, std::move(event.layers).value()});
}

void Membership::OnInstalled(uint32_t ticket, const Result<Outcome>& outcome) {
  reading_.reset();
  const auto found = loads_.find(ticket);
  if (found == loads_.end()) return;  // retired while it was being installed
  if (!outcome.ok()) {
    // Some of its layers may have become part of the engine.
    const bool leaves_layers = !found->second.experts;
    FailLoad(ticket, outcome.error());
    if (leaves_layers) UnloadWhatIsNotNeeded();
    return;
  }
  const Load load = std::move(found->second);
  loads_.erase(found);
  if (load.experts) return OnExpertsInstalled(load, *outcome);
  if (load.epoch == 0)
    return waiting_.push_front(Work(MeasureSpeed{load.timed, load.runs, load.probes}));
  stages_.SetLoaded(load.epoch);
  const auto& installed = std::get<Installed>(*outcome);
  pb::WorkerMessage reply;
  reply.mutable_prepared()->set_epoch(load.epoch);
  reply.mutable_prepared()->set_used_bytes(installed.used_bytes);
  reply.mutable_prepared()->set_weight_factor(installed.weight_factor);
  Say(std::move(reply));
}

void Membership::OnTimings(const Result<Outcome>& outcome) {
  UnloadWhatIsNotNeeded();  // what was loaded only to be measured
  if (!outcome.ok()) return Say(FailedMessage(0, outcome.error()));
  pb::WorkerMessage message;
  const auto& timings = std::get<Timings>(*outcome);
  message.mutable_measured();  // which may be empty
  for (const ProbeAnswer& answer : timings.answers) {
    auto& said = *message.mutable_measured()->add_answers();
    said.set_digest(std::string(AsText(answer.digest)));
    said.mutable_samples()->Assign(answer.samples.begin(), answer.samples.end());
  }
  for (const Timing& measured : timings.of_ranges) {
    auto& timing = *message.mutable_measured()->add_timings();
    timing.mutable_layers()->set_first(measured.layers.first);
    timing.mutable_layers()->set_end(measured.layers.end);
    for (const Duration run : measured.runs) timing.add_run_us(static_cast<uint64_t>(run.us));
  }
  Say(std::move(message));
}

void Membership::UnloadWhatIsNotNeeded() {
  ++unloads_waiting_;
  waiting_.push_front(Work(WhatIsNeeded()));
}

// ---- the computing thread ----

void Membership::On(WorkDone& event) {
  CHECK(running_.has_value());
  const Running ran = *std::exchange(running_, std::nullopt);
  if (ran.keeps) --unloads_waiting_;
  if (ran.unanswered) {
    if (ran.install) reading_.reset();
    return;
  }
  if (ran.takes_stock) return OnStock(std::get<Stock>(std::move(event.outcome).value()));
  if (ran.install) return OnInstalled(*ran.install, event.outcome);
  if (ran.measures) return OnTimings(event.outcome);
  if (!ran.generates.empty()) return OnMadeTokens(ran, std::move(event.outcome));
  if (ran.experts_for) return OnExpertResults(*ran.experts_for, std::move(event.outcome).value());
  if (ran.step) return OnStepDone(ran, std::move(event.outcome));
  if (!event.outcome.ok()) End(std::move(event.outcome).error());  // sampling that cannot be
}

void Membership::OnStepDone(const Running& ran, Result<Outcome> outcome) {
  if (outcome.ok())
    if (const auto* waits = std::get_if<StepWaits>(&*outcome)) {
      hub_.Wait(now_, *ran.place, *waits);
      return CarryHub();
    }
  if (ran.place && outcome.ok()) SayLosses(*ran.step, *ran.place);
  if (ran.place) hub_.End(*ran.place);
  if (!outcome.ok()) return FailStep(*ran.step, outcome.error());
  AnswerStep(*ran.step, SendFrame{std::move(std::get<StepReply>(*outcome).message)});
}

void Membership::AnswerStep(uint64_t number, Action answer) {
  step_answers_.at(number - first_step_).answer = std::move(answer);
  while (!step_answers_.empty() && step_answers_.front().answer) {
    if (step_answers_.front().before) Say(*std::move(step_answers_.front().before));
    if (connected_) actions_.push_back(*std::move(step_answers_.front().answer));
    step_answers_.pop_front();
    ++first_step_;
  }
}

void Membership::FailStep(uint64_t number, const Error& error) {
  const StepAnswer& step = step_answers_.at(number - first_step_);
  AnswerStep(number, SendControl{StepFailedMessage(step.sequence, step.epoch, step.stage, error)});
}

void Membership::OnMadeTokens(const Running& ran, Result<Outcome> outcome) {
  if (!outcome.ok()) {
    for (const auto& [sequence, epoch] : ran.generates) {
      Say(StepFailedMessage(sequence, epoch, 0, outcome.error()));
      generations_.End(sequence);
    }
    return;
  }
  for (MadeOfOne& made : std::get<MadeTokens>(*outcome).of_each) {
    const uint32_t sequence = made.tokens.sequence;
    if (generations_.IsStopped(sequence)) made.tokens.last = true;
    const bool goes_on = !made.error && !made.tokens.last;
    if (made.error)
      Say(StepFailedMessage(sequence, made.tokens.epoch, 0, *made.error));
    else
      SayFrame({Slice(wire::EncodeGeneration(std::move(made.tokens)))});
    if (goes_on)
      generations_.GoOn(std::move(made.rest));
    else
      generations_.End(sequence);
  }
}

bool Membership::IsIdle() const {
  return !running_ && waiting_.empty() && !generations_.has_joined() && experts_.empty() &&
         hub_.IsIdle() && !reading_ && !fetches_.under_way();
}

void Membership::Advance() {
  AnswerInit();
  if (auto layers = fetches_.Begin()) {
    Fetch fetch{std::move(*layers), {}, false};
    const auto load = loads_.find(*fetches_.served());  // or of DownloadLayers
    if (load != loads_.end()) {
      if (load->second.experts) fetch.experts = *load->second.experts;
      fetch.shards = load->second.shards;
    }
    actions_.push_back(std::move(fetch));
  }
  if (fetches_.TakeInterrupt()) actions_.push_back(InterruptFetch{});
  // Hubs' dispatches and all other work take turns; steps that were begun come before others.
  while (!ended_ && !running_) {
    if (std::exchange(experts_turn_, false) && BeginExperts()) break;
    if (BeginResume()) break;
    const bool held_up = !waiting_.empty() && IsHeldUp(waiting_.front());
    if (held_up && AbandonStuckFor(waiting_.front())) continue;
    const bool others_wait = !waiting_.empty() && !held_up;
    const bool makes_tokens = generations_.IsNext(others_wait);
    if (!makes_tokens && !others_wait) {
      BeginExperts();
      break;
    }
    experts_turn_ = true;
    if (makes_tokens) {
      BeginBatch();
      continue;
    }
    Waiting next = std::move(waiting_.front());
    waiting_.pop_front();
    Begin(std::move(next));
  }
  // Only what stays loaded may be counted on by what is read.
  if (!reading_ && !fetched_.empty() && unloads_waiting_ == 0) {
    auto next = std::find_if(fetched_.begin(), fetched_.end(),
                             [this](uint32_t ticket) { return !loads_.at(ticket).standby; });
    if (next == fetched_.end()) next = fetched_.begin();
    reading_ = *next;
    fetched_.erase(next);
    read_interrupted_ = false;
    const Load& load = loads_.at(*reading_);
    actions_.push_back(ReadLayers{load.ranges, load.experts, load.shards});
  }
  if (reading_ && !read_interrupted_ && !loads_.contains(*reading_)) {
    read_interrupted_ = true;
    actions_.push_back(InterruptRead{});
  }
}

void Membership::Begin(Waiting waiting) {
  if (auto* message = std::get_if<pb::WorkerMessage>(&waiting)) {
    step_answers_.emplace_back();
    return AnswerStep(first_step_ + step_answers_.size() - 1, SendControl{std::move(*message)});
  }
  if (auto* work = std::get_if<Work>(&waiting)) return BeginWork(std::move(*work));
  if (auto* generate = std::get_if<wire::Generate>(&waiting))
    return generations_.Join(std::move(*generate));
  auto& install = std::get<Install>(waiting);
  const auto load = loads_.find(install.ticket);
  if (load == loads_.end()) return reading_.reset();  // retired while it waited
  generations_.Passed();
  running_ = Running{.install = install.ticket};
  if (load->second.experts) {
    actions_.push_back(Compute{InstallExperts{std::move(install.layers)}});
    return;
  }
  actions_.push_back(Compute{InstallLayers{std::move(install.layers), load->second.ranges,
                                           load->second.shards, load->second.epoch}});
}

void Membership::BeginWork(Work work) {
  Running running;
  running.measures = std::holds_alternative<MeasureSpeed>(work);
  running.keeps = Unloads(work);
  running.takes_stock = std::holds_alternative<TakeStock>(work);
  if (auto* step = std::get_if<RunStep>(&work)) {
    const wire::FrameHeader& header = step->frame.header;
    step_answers_.push_back({header.sequence, header.epoch, header.stage});
    running.step = first_step_ + step_answers_.size() - 1;
    if (step->shards) {
      running.place = step->place = hub_.Begin(*running.step, step->frame.runs);
      step->predicts = hub_.MayLose(step->place);
    }
  }
  if (running.step || running.measures) generations_.Passed();
  running_ = std::move(running);
  actions_.push_back(Compute{std::move(work)});
}

void Membership::BeginBatch() {
  Generations::Batch batch = generations_.Take();
  for (const wire::Generate& generate : batch.unwanted)
    SayFrame({Slice(
        wire::EncodeGeneration(wire::Tokens{generate.sequence, generate.epoch, true, 0, {}}))});
  if (batch.wanted.empty()) return;
  Running running;
  for (const wire::Generate& generate : batch.wanted)
    running.generates.emplace_back(generate.sequence, generate.epoch);
  running_ = std::move(running);
  actions_.push_back(Compute{MakeTokens{std::move(batch.wanted)}});
}

// ---- between connections ----

void Membership::On(ConnectionLost&) {
  if (!connected_) return;
  connected_ = false;
  if (leaving_) {
    ended_ = true;
    return;
  }
  DropLoads();
  DropUnanswerable();
  if (package_) KeepOrForget();
}

// Timers may fire early: then for what is left of the time.
void Membership::KeepOrForget() {
  const Duration time = keeping_.Lost(now_);
  if (time.us > 0)
    actions_.push_back(KeepFor{time});
  else
    Forget();
}

void Membership::On(ConnectedAgain&) {
  ConnectionLost lost;
  On(lost);  // whoever did not hear of it
  connected_ = !ended_;
}

void Membership::On(KeptLongEnough&) {
  if (!connected_ && package_) KeepOrForget();
}

void Membership::DropLoads() {
  const bool loads = running_ && (running_->install || running_->measures);
  const auto& bindings = stages_.bindings();
  const bool is_unfinished = std::any_of(bindings.begin(), bindings.end(),
                                         [](const auto& binding) { return !binding.loaded; });
  const bool holds_more = loads || is_unfinished || !kept_.empty();
  experts_.Clear();
  senders_.clear();
  experts_epoch_ = 0;
  stages_.RemoveUnloaded();
  kept_.clear();
  loads_.clear();
  fetches_.Clear();
  fetched_.clear();
  std::erase_if(waiting_, [this](const Waiting& waiting) {
    if (!std::holds_alternative<Install>(waiting)) return false;
    reading_.reset();  // it was read, and is not installed
    return true;
  });
  if (!holds_more) return;
  ++unloads_waiting_;
  waiting_.push_back(Work(WhatIsNeeded()));
}

void Membership::DropUnanswerable() {
  init_seen_ = joined_ = taking_stock_ = false;
  init_.reset();
  joins_in_vain_ = joining_;
  generations_.Clear();
  first_step_ += step_answers_.size();
  step_answers_.clear();
  std::erase_if(waiting_, [](const Waiting& waiting) {
    const auto* work = std::get_if<Work>(&waiting);
    return work == nullptr || !Forgets(*work);
  });
  ForgetHub();
  if (running_) running_->unanswered = true;
}

void Membership::Forget() {
  package_.reset();
  keeping_.End();
  stages_ = {};
  kept_.clear();
  sessions_.clear();
  DropUnwantedLoads();
  ++unloads_waiting_;
  waiting_.push_back(Work(ReleaseAll{}));
}

// ---- the end, and what is said ----

void Membership::On(LeaveAsked& event) {
  pb::WorkerMessage message;
  message.mutable_leaving()->set_reason(event.reason);
  message.mutable_leaving()->set_draining(event.draining);
  Say(std::move(message));
  leaving_ = true;
  ended_ = !event.draining || !connected_;
  if (!ended_) DropLoads();
}

void Membership::End(Error error) {
  ended_ = true;
  actions_.push_back(Finish{std::move(error)});
}

void Membership::Say(pb::WorkerMessage message) {
  if (connected_) actions_.push_back(SendControl{std::move(message)});
}

void Membership::SayFrame(std::vector<Slice> message) {
  if (connected_) actions_.push_back(SendFrame{std::move(message)});
}

}  // namespace weft::worker
