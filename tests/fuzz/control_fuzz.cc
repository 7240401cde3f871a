// Hostile workers: whatever control messages and frames they send, in whatever order, the core
// neither crashes nor hangs, each request ends at most once, and what the core keeps is bounded.
//
// The input is a script: one byte says what happens next, the bytes after it what with. Honest
// answers are among the things that can happen, so that scripts reach a swarm that serves.
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "script.h"
#include "swarm/core/core.h"
#include "wire/expert_frame.h"

namespace {

using namespace weft;
using namespace weft::swarm;
using wire::pb::WorkerMessage;

constexpr uint32_t kVocabulary = 32, kColumns = 4;
constexpr size_t kMaxScriptEvents = 400;

CoreOptions Options() {
  CoreOptions options;
  options.model.name = "fuzz";
  ModelLayer layer;
  layer.weight_bytes = layer.download_bytes = layer.read_bytes_per_token = 100000;
  layer.kv_bytes_per_position = 4;
  options.model.layers.assign(5, layer);
  // Layers 1 and 2 are mixtures, so that hubs and holders are among the plans.
  for (uint32_t sparse : {1, 2}) {
    options.model.layers[sparse].expert_count = 2;
    options.model.layers[sparse].experts_per_token = 1;
    options.model.layers[sparse].expert_bytes = 20000;
  }
  options.plan_kind = PlanKind::kAuto;
  options.model.hidden_columns = kColumns;
  options.model.vocabulary = kVocabulary;
  options.context_length = 64;
  options.session_count = 2;
  options.queue_limit = 4;
  options.worker_limit = 4;
  options.strangers_per_address = 2;
  options.stranger_limit = 3;
  return options;
}

struct Worker {
  WorkerMessage prepared, held;
  std::vector<wire::Frame> steps;
};

class Hostility {
 public:
  explicit Hostility(Script script) : script_(script), core_(Options()) {}

  void Run() {
    for (size_t i = 0; i < kMaxScriptEvents && !script_.done(); ++i) Next(script_.Byte());
    const CoreSizes sizes = core_.sizes();
    // Joined workers and connections before their Connect; a client with nothing waiting finds room
    // up to twice the queue's limit.
    CHECK(sizes.workers <= 4 + 3 && sizes.waiting_requests <= 2 * 4 && sizes.sessions <= 2);
    (void)core_.snapshot(now_);
  }

 private:
  void Next(uint8_t what) {
    const uint64_t count = last_worker_.value();
    const WorkerId id(count == 0 ? count : 1 + what / 16 % count);
    switch (what % 16) {
      case 0:
        return Feed(WorkerConnected{++last_worker_, "address"});
      case 1:
        return Connect(id);
      case 2:
        if (workers_[id].held.has_experts_held())
          return Send(id, std::exchange(workers_[id].held, {}));
        return Send(id, workers_[id].prepared);
      case 3:
        return Leave(id);
      case 4:
        return Answer(id, false);
      case 5:
        return Answer(id, true);
      case 6:
        return Feed(WorkerLost{id, "gone"});
      case 7:
        return Submit();
      case 8:
        return Feed(RequestCancelled{RequestId(script_.Byte())});
      case 9:
        return Advance(Milliseconds(script_.Byte()));
      case 10:
        return Advance(Seconds(script_.Byte() % 64));
      case 11:
        return Feed(WorkerData{id, Slice(script_.Bytes())});
      default:
        return SendBytes(id);
    }
  }

  void Feed(const Event& event) {
    // The host never speaks of connections that it has closed or not opened.
    const auto* control = std::get_if<WorkerControl>(&event);
    const auto* data = std::get_if<WorkerData>(&event);
    const auto* lost = std::get_if<WorkerLost>(&event);
    const WorkerId about = control ? control->worker
                           : data  ? data->worker
                           : lost  ? lost->worker
                                   : 0;
    if ((control || data || lost) && !open_.contains(about)) return;
    if (const auto* connected = std::get_if<WorkerConnected>(&event))
      open_.insert(connected->worker);
    if (lost) open_.erase(about);
    for (const Action& action : core_.Handle(event, now_)) {
      std::visit([this](const auto& each) { Carry(each); }, action);
    }
    if (planning_) return;
    planning_ = true;
    while (!jobs_.empty()) {
      const StartPlanning job = jobs_.front();
      jobs_.erase(jobs_.begin());
      Feed(PlanFound{job.work, RunPlanning(job)});
    }
    planning_ = false;
  }

  void Carry(const SendControl& action) {
    Worker& worker = workers_[action.worker];
    if (action.message.has_prepare_stage()) {
      auto& prepared = *worker.prepared.mutable_prepared();
      prepared.set_binding(action.message.prepare_stage().binding());
      prepared.set_weight_factor(1);
    }
    if (action.message.has_hold_experts())
      worker.held.mutable_experts_held()->set_binding(action.message.hold_experts().binding());
  }
  void Carry(const SendData& action) {
    std::vector<uint8_t> bytes;
    for (const Slice& piece : action.pieces) {
      bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
    }
    if (wire::IsShardMessage(bytes)) return;  // passed on as it came
    workers_[action.worker].steps.push_back(wire::DecodeFrame(Slice(std::move(bytes))).value());
  }
  void Carry(const CloseWorker& action) {
    open_.erase(action.worker);
    workers_.erase(action.worker);
  }
  void Carry(const FinishRequest& action) {
    CHECK(action.request <= last_request_ && finished_.insert(action.request).second);
  }
  void Carry(const EmitSession&) {}
  void Carry(const EmitToken& action) {
    CHECK(!finished_.contains(action.request));
    CHECK(action.token_id >= 0 && static_cast<uint32_t>(action.token_id) < kVocabulary);
  }
  void Carry(const StartPlanning& job) { jobs_.push_back(job); }
  void Carry(const EmitLogits&) {}
  void Carry(const SetMessageLimit&) {}
  void Carry(const CheckLayers&) {}
  void Carry(const Warn&) {}
  void Carry(const SwarmChanged&) {}

  void Send(WorkerId id, const WorkerMessage& message) { Feed(WorkerControl{id, message}); }

  void SendBytes(WorkerId id) {
    const std::vector<uint8_t> bytes = script_.Bytes();
    WorkerMessage message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) Send(id, message);
  }

  void Leave(WorkerId id) {
    WorkerMessage message;
    message.mutable_leaving()->set_draining(script_.Byte() % 2 == 0);
    Send(id, message);
  }

  // One of three devices, perhaps with something that it says it holds since its last connection.
  void ComeBack(wire::pb::Connect& connect) {
    const uint8_t what = script_.Byte();
    connect.set_worker_id(std::string(1, static_cast<char>('a' + what % 3)));
    if (what % 2 == 0) return;
    auto& held = *connect.add_held();
    held.set_id(script_.Byte());
    held.set_stage(script_.Byte() % 4);
    held.mutable_layers()->set_first(script_.Byte() % 8);
    held.mutable_layers()->set_end(script_.Byte() % 8);
    held.add_sessions(script_.Byte());
    held.add_positions(script_.Byte());
  }

  void Connect(WorkerId id) {
    WorkerMessage message;
    auto& connect = *message.mutable_connect();
    connect.set_protocol_version(wire::kProtocolVersion);
    connect.set_program_version(1);
    connect.set_package_format(1);
    connect.set_kind("native");
    connect.set_engine("native");
    ComeBack(connect);
    connect.set_memory_bytes(uint64_t{script_.Byte()} * 4000);
    const uint8_t part = script_.Byte();
    connect.set_can_be_hub(part % 2 == 0);
    connect.set_takes_experts(part / 2 % 2 == 0);
    connect.set_weight_factor(1);
    connect.set_download_bytes_per_s(1e9);
    connect.set_worker_id(ToString(id));
    Send(id, message);
  }

  // The result of the oldest step, of the right size; with `wild`, its bytes from the script.
  void Answer(WorkerId id, bool wild) {
    if (!workers_.contains(id) || workers_[id].steps.empty()) return;
    const wire::Frame step = workers_[id].steps.front();
    workers_[id].steps.erase(workers_[id].steps.begin());
    wire::FrameHeader header = step.header;
    header.type = wire::FrameType::kResult;
    header.dtype = DType::kF16;
    const bool hidden = std::any_of(step.runs.begin(), step.runs.end(), [](const wire::Run& run) {
      return run.output == wire::OutputKind::kHidden;
    });
    header.columns = hidden ? kColumns : 0;
    std::vector<uint8_t> payload(
        wire::ResultPayloadBytes(step.runs, header.columns, header.dtype, kVocabulary));
    if (wild) {
      const std::vector<uint8_t> bytes = script_.Bytes();
      std::copy_n(bytes.begin(), std::min(bytes.size(), payload.size()), payload.begin());
    }
    std::vector<uint8_t> message = wire::EncodeFrameHead(header, step.runs, payload.size());
    message.insert(message.end(), payload.begin(), payload.end());
    Feed(WorkerData{id, Slice(std::move(message))});
  }

  void Submit() {
    Request request;
    request.id = ++last_request_;
    request.prompt_ids.assign(1 + script_.Byte() % 20, 3);
    request.max_tokens = 1 + script_.Byte() % 8;
    request.sampling.temperature = script_.Byte() % 2 == 0 ? 0.0f : 1.0f;
    Feed(RequestSubmitted{request});
  }

  void Advance(Duration duration) {
    const Instant until = now_ + duration;
    int at_once = 0;
    for (;;) {
      const auto timer = core_.next_timer();
      if (!timer || *timer > until) break;
      // One loss may make another due, but not for ever.
      at_once = *timer > now_ ? 0 : at_once + 1;
      CHECK(at_once < 20, "a timer fires without end");
      now_ = std::max(now_, *timer);
      Feed(TimerFired{});
    }
    now_ = until;
  }

  Script script_;
  Core core_;
  Instant now_{1'000'000};
  WorkerId last_worker_ = 0;
  RequestId last_request_ = 0;
  std::map<WorkerId, Worker> workers_;
  std::set<WorkerId> open_;
  std::set<RequestId> finished_;
  std::vector<StartPlanning> jobs_;
  bool planning_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  Hostility(Script(data, byte_count)).Run();
  return 0;
}
