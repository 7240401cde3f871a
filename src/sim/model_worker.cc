#include "sim/model_worker.h"

#include <algorithm>

#include "base/check.h"
#include "base/network.h"
#include "wire/whole_frame.h"

namespace weft::sim {
namespace {

namespace pb = wire::pb;

// What work takes beside computing.
constexpr Duration kOverhead = Microseconds(5);
constexpr size_t kLastSteps = 64;
// In the head of a result (wire/data_frame.h).
constexpr size_t kComputeTimeAt = 36;
// An ONNX engine builds a session for what it loads, on its one thread.
constexpr Duration kLoad = Milliseconds(1), kLoadLayer = Milliseconds(5),
                   kOnnxLoad = Milliseconds(300);

Duration Us(double us) {
  return Microseconds(static_cast<int64_t>(us));
}

// A step that its hub gave up because nobody could help it.
bool WasStuck(const pb::StepFailed& failed) {
  return failed.message().find("given up while nobody held the experts") != std::string::npos;
}

worker::Offer OfferOf(const Device& device) {
  worker::Offer offer;
  offer.kind = device.kind;
  offer.engine = device.engine;
  offer.name = offer.worker_id = device.id;
  offer.memory_bytes = device.memory_bytes;
  offer.weight_factor = device.claimed_weight_factor;
  offer.upload_bytes_per_s = device.link_bytes_per_us * 1e6;
  offer.needs_onnx = device.needs_onnx;
  offer.keeps_state = !device.needs_onnx;
  offer.makes_tokens = device.token_batch;
  offer.steps_in_flight = device.needs_onnx || device.rows_to_server ? 1 : 2;
  offer.states_ahead = device.token_batch > 0;
  offer.takes_experts = offer.can_be_hub = offer.runs_groups = device.is_hub_and_holder;
  offer.divides_products = device.divides_products;
  offer.datagrams = device.datagram_port != 0;
  // Some are from before messages went in datagrams.
  offer.messages = offer.datagrams && device.datagram_port % 4 != 0;
  if (offer.datagrams) offer.datagram_addresses = {AddressOf(device)};
  return offer;
}

worker::ModelShape ShapeOf(const swarm::ModelInfo& model) {
  worker::ModelShape shape;
  for (const swarm::ModelLayer& layer : model.layers)
    shape.layers.push_back({layer.weight_bytes, {layer.tied_to, layer.tied_bytes}});
  shape.vocabulary = model.vocabulary;
  shape.hidden_columns = model.hidden_columns;
  shape.boundary_dtype = model.boundary_dtype;
  return shape;
}

// The hash engine reads no weights.
class NoWeights : public engine::WeightSource {
 public:
  Result<Slice> Read(const program::Part&) override {
    return Error(ErrorCode::kUnsupported, "The hash model has no weights.");
  }
};

}  // namespace

DatagramAddress AddressOf(const Device& device) {
  return {*ParseIp(kDeviceAddress), device.datagram_port};
}

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
      machine_(model, costs, device),
      membership_(OfferOf(device), {}, [this](MutableByteSpan out) {
        for (uint8_t& byte : out) byte = static_cast<uint8_t>(random_.Next());
      }) {
  HashEngine::Hooks into;
  into.step_fault = [this](std::span<const engine::Run> runs) { return StepFault(runs); };
  into.read_fault = [this] { return ReadFault(); };
  into.lied = [this] { hooks_.lied(); };
  into.refused = [this](const engine::Run& run, const std::string& why) { OnRefused(run, why); };
  const auto engine = [&](LayerForm form) {
    return std::make_unique<HashEngine>(machine_, form, random_.Next(), into);
  };
  host_ = std::make_unique<worker::StageHost>(ShapeOf(options.model), engine(LayerForm::kWhole),
                                              [this] { return machine_.clock; });
  if (!device.is_hub_and_holder) return;
  host_->BeHubWith(engine(LayerForm::kHub));
  host_->HoldExpertsWith(std::make_unique<worker::ExpertHost>(
      std::make_unique<HashExperts>(machine_, random_.Next())));
}

void ModelWorker::OnControl(pb::ServerMessage message) {
  if (message.has_refused()) refused_ = true;
  if (message.has_init()) heard_incarnation_ = message.init().incarnation();
  if (message.has_ping() && device_.pings_wait && (computing_ > 0 || stalled_))
    return held_pings_.push_back(std::move(message));
  for (const auto& range : message.measure_speed().ranges())
    if (!device_.disk.HasAll(range.first(), range.end()))
      Violation("asked to measure layers that it does not have");
  Feed(worker::ControlReceived{std::move(message)});
}

void ModelWorker::ConnectAgain() {
  refused_ = has_hung_up_ = false;
  last_steps_.clear();  // another server counts from the beginning
  held_pings_.clear();
  Feed(worker::ConnectedAgain{});
}

void ModelWorker::Carry(worker::KeepFor& action) {
  scheduler_.After(action.time, [self = weak_from_this()] {
    if (const auto worker = self.lock()) worker->Feed(worker::KeptLongEnough{});
  });
}

void ModelWorker::Feed(worker::Event event) {
  if (frozen_) return;
  for (worker::Action& action : membership_.Handle(std::move(event), scheduler_.now()))
    if (!frozen_) std::visit([this](auto& each) { Carry(each); }, action);
}

void ModelWorker::FeedAfter(Duration delay, std::function<worker::Event()> event) {
  scheduler_.After(delay, [self = weak_from_this(), event = std::move(event)] {
    const auto worker = self.lock();
    if (worker && !worker->frozen_ && !worker->stalled_) worker->Feed(event());
  });
}

// ---- layers ----

void ModelWorker::Carry(worker::Join&) {
  hooks_.begins_anew();
  FeedAfter(kOverhead, [this] {
    worker::JoinedPackage package;
    package.layer_count = model_.layer_count;
    package.download_bytes_per_s = device_.link_bytes_per_us * 1e6;
    for (uint32_t layer = 0; layer < model_.layer_count; ++layer)
      if (device_.disk.Has(layer)) package.cached_layers.push_back(layer);
    return worker::Joined{std::move(package)};
  });
}

void ModelWorker::Carry(worker::Fetch& action) {
  CHECK(!fetching_);
  fetching_.emplace();
  for (const uint32_t layer : action.layers)
    fetching_->pieces.push_back({layer, action.form, std::nullopt});
  for (const wire::LayerExperts& set : action.experts)
    for (const uint32_t expert : set.experts)
      fetching_->pieces.push_back({set.layer, LayerForm::kWhole, expert});
  fetching_->number = ++fetch_count_;
  FetchNext();
}

double ModelWorker::MissingBytes(const ModelFetch::Piece& piece) const {
  if (device_.disk.Has(piece.layer)) return 0;
  if (piece.expert && device_.disk_experts.contains({piece.layer, *piece.expert})) return 0;
  if (piece.expert) return static_cast<double>(model_.PartBytes(piece.layer, *piece.expert));
  if (IsHub(piece.form) && device_.disk_hubs.Has(piece.layer)) return 0;
  if (IsHub(piece.form)) return static_cast<double>(model_.hub_bytes[piece.layer]);
  const auto partial = device_.partial_bytes.find(piece.layer);
  return static_cast<double>(options_.model.layers.at(piece.layer).download_bytes) -
         (partial == device_.partial_bytes.end() ? 0 : partial->second);
}

void ModelWorker::NoteFetched(const ModelFetch::Piece& piece) {
  if (piece.expert) {
    device_.disk_experts.emplace(piece.layer, *piece.expert);
  } else if (IsHub(piece.form)) {
    device_.disk_hubs.Add(piece.layer);
  } else {
    device_.disk.Add(piece.layer);
    device_.partial_bytes.erase(piece.layer);
  }
}

// Downloads go on while computing hangs.
void ModelWorker::FetchNext() {
  ModelFetch& fetch = *fetching_;
  const auto later = [this, number = fetch.number](Duration delay, auto then) {
    scheduler_.After(delay, [self = weak_from_this(), number, then] {
      const auto worker = self.lock();
      if (!worker || worker->frozen_ || !worker->fetching_ || worker->fetching_->number != number)
        return;
      then(*worker);
    });
  };
  if (fetch.pieces.empty())
    return later(Microseconds(1), [](ModelWorker& worker) {
      worker.fetching_.reset();
      worker.Feed(worker::FetchEnded{});
    });
  const ModelFetch::Piece piece = fetch.pieces.front();
  fetch.began = scheduler_.now();
  fetch.bytes = MissingBytes(piece);
  const Duration time = Us(50 + fetch.bytes / device_.link_bytes_per_us);
  later(time, [piece, time](ModelWorker& worker) {
    const auto bytes = static_cast<uint64_t>(worker.fetching_->bytes);
    worker.fetching_->pieces.pop_front();
    worker.NoteFetched(piece);
    if (!piece.expert && !IsHub(piece.form))
      worker.Feed(worker::LayerFetched{piece.layer, bytes, time});
    if (worker.fetching_) worker.FetchNext();
  });
}

void ModelWorker::Carry(worker::InterruptFetch&) {
  if (!fetching_) return;
  hooks_.interrupted();
  const bool of_layer = !fetching_->pieces.empty() && !IsHub(fetching_->pieces.front().form) &&
                        !fetching_->pieces.front().expert;
  if (of_layer && fetching_->bytes > 0) {
    const double us = static_cast<double>((scheduler_.now() - fetching_->began).us);
    device_.partial_bytes[fetching_->pieces.front().layer] +=
        std::min(fetching_->bytes - 1, us * device_.link_bytes_per_us);
  }
  fetching_->pieces.clear();
  fetching_->number = ++fetch_count_;
  scheduler_.After(Microseconds(1), [self = weak_from_this()] {
    const auto worker = self.lock();
    if (!worker || worker->frozen_) return;
    worker->fetching_.reset();
    worker->Feed(worker::FetchEnded{
        Error(ErrorCode::kCancelled, "The simulated download was interrupted.")});
  });
}

void ModelWorker::Carry(worker::ReadLayers& action) {
  Duration time = kLoad + (device_.needs_onnx ? kOnnxLoad : Duration{});
  std::vector<program::Program> programs;
  const auto add = [&](uint32_t layer) {
    programs.push_back(model_.ProgramOf(layer));
    time = time + kLoadLayer;
  };
  if (action.experts)
    for (const wire::LayerExperts& set : *action.experts) add(set.layer);
  for (const LayerRange range : action.ranges)
    for (uint32_t layer = range.first; layer < range.end; ++layer) add(layer);
  FeedAfter(time, [this, programs = std::move(programs), read = std::move(action)] {
    NoWeights none;
    if (read.experts)
      return worker::LayersRead{host_->experts().Read(*read.experts, programs, none)};
    return worker::LayersRead{IsHub(read.form) ? host_->ReadHubs(programs, none)
                                               : host_->Read(programs, none)};
  });
}

// ---- work ----

// Of two servers that take themselves for the leader the later one counts, and then never again the
// earlier one.
void ModelWorker::CheckIncarnation(const worker::Work& work) {
  const bool is_frame = std::holds_alternative<worker::RunStep>(work) ||
                        std::holds_alternative<worker::MakeTokens>(work) ||
                        std::holds_alternative<worker::RunExperts>(work);
  if (!is_frame) return;
  if (heard_incarnation_ < ran_incarnation_)
    Violation("runs a frame of incarnation " + std::to_string(heard_incarnation_) + " after " +
              std::to_string(ran_incarnation_));
  ran_incarnation_ = heard_incarnation_;
}

// Holders of experts take messages of so many rows.
void ModelWorker::CheckRows(const worker::RunStep& step) {
  uint32_t rows = 0;
  for (const wire::Run& run : step.frame.runs) rows += run.count;
  if (IsHub(step.form) && rows > options_.prefill_chunk_rows)
    Violation("is sent " + std::to_string(rows) + " rows as a hub");
}

void ModelWorker::Carry(worker::Compute& action) {
  CHECK(computing_ < OfferOf(device_).steps_in_flight);
  ++computing_;
  CheckIncarnation(action.work);
  DrawFault(action.work);
  machine_.BeginWork(scheduler_.now());
  const auto* step = std::get_if<worker::RunStep>(&action.work);
  const uint32_t sequence = step ? step->frame.header.sequence : 0;
  const uint32_t place = step ? step->place : 0;
  if (step) CheckRows(*step);
  if (step) last_steps_[sequence] = step->frame.runs;
  if (last_steps_.size() > kLastSteps) last_steps_.erase(last_steps_.begin());
  Result<worker::Outcome> outcome = host_->Do(std::move(action.work));
  std::set<uint32_t> excused;
  if (!outcome.ok() && excused_) {
    excused.insert(sequence);
    NoteFailed(sequence);
  }
  if (outcome.ok())
    if (const auto* made = std::get_if<worker::MadeTokens>(&*outcome))
      for (const worker::MadeOfOne& one : made->of_each) {
        hooks_.generated(one.tokens.token_ids.size(), made->of_each.size());
        // Whatever was not meant to fail was a violation.
        if (one.error) excused.insert(one.tokens.sequence);
      }
  EndWork(place, std::move(outcome), std::move(excused));
}

void ModelWorker::EndWork(uint32_t place, Result<worker::Outcome> outcome,
                          std::set<uint32_t> excused) {
  const auto* waits = outcome.ok() ? std::get_if<worker::StepWaits>(&*outcome) : nullptr;
  if (waits != nullptr && device_.rows_to_server) return AskServer(place, *waits);
  FeedAfter(machine_.clock - scheduler_.now() + kOverhead,
            [this, excused = std::move(excused),
             outcome = std::make_shared<Result<worker::Outcome>>(std::move(outcome))]() mutable {
              --computing_;
              excused_sequences_.merge(excused);
              for (pb::ServerMessage& ping : held_pings_)
                Feed(worker::ControlReceived{std::move(ping)});
              held_pings_.clear();
              return worker::WorkDone{std::move(*outcome)};
            });
}

// All of its runs have failed with it, so what follows them may be refused, too.
void ModelWorker::NoteFailed(uint32_t sequence) {
  const auto found = last_steps_.find(sequence);
  if (found == last_steps_.end()) return;
  for (const wire::Run& run : found->second) failed_.emplace(run.session, run.generation);
}

void ModelWorker::DrawFault(const worker::Work& work) {
  fault_.reset();
  excused_ = false;
  batches_ = std::holds_alternative<worker::MakeTokens>(work);
  if (!std::holds_alternative<worker::RunStep>(work) &&
      !std::holds_alternative<worker::MakeTokens>(work))
    return;
  if (random_.Uniform() < device_.step_failure)
    fault_ = Error(ErrorCode::kUnavailable, "The simulated device hiccuped.");
  if (random_.Uniform() < device_.numbers_failure)
    fault_ = Error(ErrorCode::kInvalidData, "Layer 3 gave 7 values that are not finite.");
}

std::optional<Error> ModelWorker::StepFault(std::span<const engine::Run> runs) {
  if (!fault_) return std::nullopt;
  // The host tries each of a batch by itself: the first one fails.
  if (batches_ && runs.size() > 1) return fault_;
  excused_ = true;
  for (const engine::Run& run : runs) {
    failed_.emplace(run.session, run.generation);
    if (fault_->code() == ErrorCode::kInvalidData && runs.size() == 1)
      hooks_.numbers_failed(run.session);
  }
  return std::exchange(fault_, std::nullopt);
}

std::optional<Error> ModelWorker::ReadFault() {
  if (random_.Uniform() >= device_.prepare_failure) return std::nullopt;
  return Error(ErrorCode::kIo, "The simulated disk failed.");
}

// Only a step that follows one which was failed on purpose may be refused.
void ModelWorker::OnRefused(const engine::Run& run, const std::string& why) {
  excused_ = failed_.contains({run.session, run.generation});
  if (!excused_) Violation("refuses a step: " + why);
}

// ---- what it sends ----

void ModelWorker::Carry(worker::SendControl& action) {
  pb::WorkerMessage& message = action.message;
  if (message.has_connect() && device_.is_hub_and_holder) {
    message.mutable_connect()->set_can_be_hub(!device_.rows_to_server && !device_.is_no_hub);
    message.mutable_connect()->set_rows_to_server(device_.rows_to_server && !device_.is_no_hub);
  }
  if (message.has_failed()) CheckFailed(message.failed());
  if (message.has_step_failed()) CheckStepFailed(message.step_failed());
  if (message.has_measured() && Claims())
    for (auto& timing : *message.mutable_measured()->mutable_timings())
      for (uint64_t& run_us : *timing.mutable_run_us()) run_us = *device_.lies.claimed_us;
  if (message.has_prepared()) {
    if (random_.Uniform() < device_.prepare_crash) return hooks_.crash();
    prepared_binding_ = message.prepared().binding();
  }
  hooks_.send(std::move(message));
}

void ModelWorker::CheckStepFailed(const pb::StepFailed& failed) {
  if (WasStuck(failed)) return NoteFailed(failed.sequence());
  if (excused_sequences_.erase(failed.sequence()) == 0)
    Violation("refuses a step: " + failed.message());
}

void ModelWorker::CheckFailed(const pb::Failed& failed) {
  const bool disk = failed.code() == ErrorCodeName(ErrorCode::kIo);
  const bool memory = failed.code() == ErrorCodeName(ErrorCode::kOutOfMemory);
  if (!disk && !memory)
    Violation("cannot do what it was told in binding " + std::to_string(failed.binding()) + ": " +
              failed.message());
}

void ModelWorker::Carry(worker::Finish& action) {
  if (!refused_) Violation("gives up: " + action.error.ToString());
}

void ModelWorker::Carry(worker::SendFrame& action) {
  std::vector<uint8_t> message;
  for (const Slice& piece : action.message)
    message.insert(message.end(), piece.bytes().begin(), piece.bytes().end());
  if (!wire::IsWholeFrame(message)) return SendData(std::move(message));
  auto frame = wire::DecodeWholeFrame(message);
  CHECK(frame.ok());
  if (auto* tokens = std::get_if<wire::Tokens>(&*frame)) {
    MaybeIllegal();
    if (Claims()) tokens->compute_us = *device_.lies.claimed_us;
    if (Claims()) message = wire::EncodeWholeFrame(*frame);
  }
  hooks_.send(Slice(std::move(message)));
}

void ModelWorker::Carry(worker::SendShards& action) {
  std::vector<uint8_t> message;
  for (const Slice& piece : wire::EncodeShardMessage(action.peer, action.frames))
    message.insert(message.end(), piece.bytes().begin(), piece.bytes().end());
  hooks_.send(Slice(std::move(message)));
}

void ModelWorker::Carry(worker::WakeAt& action) {
  wakes_at_ = action.at;
  if (!wakes_at_) return;
  scheduler_.At(*wakes_at_, [self = weak_from_this(), at = *wakes_at_] {
    const auto worker = self.lock();
    if (!worker || worker->wakes_at_ != at) return;
    worker->wakes_at_.reset();
    worker->Feed(worker::TimerDue{});
  });
}

// Of a result the times, or the last of its hidden values: a 16-bit float of which the exponent is
// all ones, and the fraction is not zero, is no number in either format.
void ModelWorker::Lie(std::vector<uint8_t>& result) {
  if (Claims()) StoreLe<uint32_t>(&result[kComputeTimeAt], *device_.lies.claimed_us);
  if (!device_.lies.not_finite || !device_.lies.HaveBegun(scheduler_.now())) return;
  const auto frame = wire::DecodeFrame(Slice(result));
  CHECK(frame.ok());
  if (frame->header.columns == 0) return;
  StoreLe<uint16_t>(&result[result.size() - 2], 0x7fff);
  hooks_.lied();
}

void ModelWorker::SayUnasked() {
  if (frozen_) return;
  wire::pb::WorkerMessage message;
  switch (random_.Below(4)) {
    case 0:
      message.mutable_failed()->set_message("Something that nobody asked for failed.");
      break;
    case 1:
      message.mutable_download_progress();
      break;
    case 2:
      message.mutable_layer_downloaded();
      break;
    default:
      message.mutable_failed()->set_code(std::string(ErrorCodeName(ErrorCode::kIo)));
      break;
  }
  hooks_.send(std::move(message));
}

// Sends a result, or on bad days something else: every change is in the head of the frame or its
// length, where it can be noticed; a flipped bit in a hidden row cannot.
void ModelWorker::SendData(std::vector<uint8_t> message) {
  MaybeIllegal();
  Lie(message);
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
      case 2:  // where it is still no longer than the host receives
        if (message.size() < wire::kMaxControlBytes) message.push_back(0);
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
      message.mutable_prepared()->set_binding(1u << 30);
      break;
    case 3:
      message.mutable_prepared()->set_binding(prepared_binding_);
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
