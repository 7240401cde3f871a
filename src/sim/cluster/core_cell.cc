#include "sim/cluster/core_cell.h"

#include <utility>

namespace weft::sim {
namespace {

constexpr Duration kCountInterval = Milliseconds(100);  // as server/cluster_cell.cc has it
constexpr Duration kPlansFor = Milliseconds(5);
constexpr Duration kChecksFor = Milliseconds(1);

swarm::WorkerId WorkerOf(LineId line) {
  return swarm::WorkerId(line);
}

}  // namespace

CoreCell::CoreCell(swarm::CoreOptions options, CoreHooks hooks)
    : hooks_(std::move(hooks)), core_(std::move(options)) {
  ArmTimer();
}

void CoreCell::Change(cluster::Incarnation incarnation, std::vector<swarm::Successor> successors) {
  Feed(swarm::LeadershipChanged{incarnation.value(), std::move(successors)});
}

void CoreCell::OnWorker(LineId line) {
  Feed(swarm::WorkerConnected{WorkerOf(line), kDeviceAddress, "", /*trusted=*/true});
}

void CoreCell::OnMessage(LineId line, const FromWorker& message) {
  if (const auto* control = std::get_if<wire::pb::WorkerMessage>(&message))
    return Feed(swarm::WorkerControl{WorkerOf(line), *control});
  Feed(swarm::WorkerData{WorkerOf(line), std::get<Slice>(message)});
}

void CoreCell::OnGone(LineId line) {
  Feed(swarm::WorkerLost{WorkerOf(line), "connection reset"});
}

swarm::RequestId CoreCell::Submit(swarm::Request request, AnswerHooks hooks) {
  request.id = last_request_ = last_request_.Next();
  const swarm::RequestId id = request.id;
  answers_[id] = std::move(hooks);
  Feed(swarm::RequestSubmitted{std::move(request)});
  return id;
}

uint64_t CoreCell::CountRequests() const {
  const swarm::Snapshot picture = core_.snapshot(hooks_.now());
  return picture.active_requests + picture.queued_requests;
}

// What an action brings about is handled after all actions of its event.
void CoreCell::Feed(swarm::Event event) {
  waiting_.push_back(std::move(event));
  if (std::exchange(is_handling_, true)) return;
  while (!waiting_.empty()) {
    const swarm::Event next = std::move(waiting_.front());
    waiting_.pop_front();
    for (const swarm::Action& action : core_.Handle(next, hooks_.now()))
      std::visit([this](const auto& each) { Carry(each); }, action);
  }
  is_handling_ = false;
  if (core_.placement_version() != placement_version_) {
    placement_version_ = core_.placement_version();
    hooks_.note_placement(core_.placement());
  }
  ArmTimer();
}

void CoreCell::Later(Duration delay, std::function<void()> what) {
  hooks_.after(delay, [what = std::move(what), alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) what();
  });
}

void CoreCell::ArmTimer() {
  const auto timer = core_.next_timer();
  if (!timer || (armed_ && *armed_ <= *timer)) return;
  armed_ = timer;
  const Instant now = hooks_.now();
  Later(*timer > now ? *timer - now : Duration{}, [this, at = *timer] {
    if (armed_ != at) return;
    armed_.reset();
    Feed(swarm::TimerFired{});
  });
}

void CoreCell::Carry(const swarm::SendControl& action) {
  hooks_.send_control(action.worker.value(), action.message);
}

void CoreCell::Carry(const swarm::SendData& action) {
  std::vector<uint8_t> bytes;
  for (const Slice& piece : action.pieces)
    bytes.insert(bytes.end(), piece.bytes().begin(), piece.bytes().end());
  hooks_.send_frame(action.worker.value(), Slice(std::move(bytes)));
}

void CoreCell::Carry(const swarm::EmitSession& action) {
  answers_.at(action.request).session(action.trace);
}

void CoreCell::Carry(const swarm::EmitToken& action) {
  answers_.at(action.request).token(action);
}

void CoreCell::Carry(const swarm::FinishRequest& action) {
  const auto found = answers_.find(action.request);
  if (found == answers_.end())
    return hooks_.violate("request " + ToString(action.request) + " of a core ended twice");
  const AnswerHooks hooks = std::move(found->second);
  answers_.erase(found);
  hooks.end(action);
}

void CoreCell::Carry(const swarm::StartPlanning& action) {
  Later(kPlansFor, [this, action] {
    Feed(swarm::PlanFound{action.work, swarm::RunPlanning(action)});
  });
}

// The simulated package is in order.
void CoreCell::Carry(const swarm::CheckLayers& action) {
  Later(kChecksFor, [this, action] {
    Feed(swarm::LayersChecked{action.first, action.end, std::nullopt});
  });
}

void CoreCell::CountLater() {
  if (std::exchange(counts_, true)) return;
  Later(kCountInterval, [this] {
    counts_ = false;
    const swarm::Snapshot picture = core_.snapshot(hooks_.now());
    hooks_.count(static_cast<uint32_t>(picture.workers.size()), core_.is_up());
  });
}

}  // namespace weft::sim
