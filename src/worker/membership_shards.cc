// Membership's part for experts on other machines: what this worker holds for hubs, and their
// dispatches.
#include "worker/membership.h"

namespace weft::worker {

namespace pb = wire::pb;

void Membership::OnHoldExperts(const pb::HoldExperts& message) {
  if (!offer_.takes_experts)
    return Violation("The server sent HoldExperts to a worker that takes no experts.");
  if (message.epoch() <= experts_epoch_)
    return Violation("The server sent HoldExperts of epoch " + std::to_string(message.epoch()) +
                     " after that of epoch " + std::to_string(experts_epoch_) + ".");
  auto sets = wire::ReadExpertSets(message.sets(), layer_count_);
  if (!sets.ok()) return End(std::move(sets).error());
  experts_epoch_ = message.epoch();
  // What it does not name is not computed any more; what it adds is, once it is loaded.
  experts_.HoldOnly(*sets);
  DropExpertLoads();  // the newest counts
  Load load;
  load.epoch = message.epoch();
  load.experts = std::move(*sets);
  Add(std::move(load));
}

void Membership::OnExpertsInstalled(const Load& load, const Outcome& outcome) {
  experts_bytes_ = std::get<ExpertsInstalled>(outcome).used_bytes;
  experts_.Hold(*load.experts);
  pb::WorkerMessage reply;
  reply.mutable_experts_held()->set_epoch(load.epoch);
  reply.mutable_experts_held()->set_used_bytes(experts_bytes_);
  Say(std::move(reply));
}

// Hubs are workers like this one, and the server forwards what they send without reading it: what
// cannot be read is nobody's question, and no reason to leave the server.
void Membership::OnShards(const Slice& message) {
  if (!joined_ || !(offer_.takes_experts || offer_.can_be_hub))
    return Violation("The server sent a shard message to a worker that holds no experts.");
  const auto decoded = wire::DecodeShardMessage(message);
  if (decoded.ok()) return OnShardFrames(decoded->peer, decoded->frames);
  const auto peer = wire::ShardPeer(message.bytes());
  if (!peer.ok()) return;
  hub_.OnMalformed(now_, *peer, decoded.error().message());
  CarryHub();
}

// What a hub sends is for the experts here, what a holder sends is for the hub here.
void Membership::OnShardFrames(uint32_t peer, std::span<const wire::ExpertFrame> frames) {
  std::vector<wire::ExpertFrame> refusals = experts_.Take(peer, frames);
  if (!refusals.empty()) SayShards(peer, std::move(refusals));
  for (const wire::ExpertFrame& frame : frames)
    if (frame.type == wire::ExpertFrameType::kChannel) OnChannel(peer, frame);
  hub_.Hear(now_, peer, frames);
  CarryHub();
}

void Membership::SayShards(uint32_t peer, std::vector<wire::ExpertFrame> frames) {
  if (peer == hub_.self() && peer != 0) return OnShardFrames(peer, frames);
  if (connected_) actions_.push_back(SendShards{peer, std::move(frames)});
}

bool Membership::BeginExperts() {
  auto next = experts_.Next();
  if (!next) return false;
  Running running;
  running.experts_for = next->peer;
  running_ = running;
  actions_.push_back(Compute{RunExperts{std::move(next->dispatches)}});
  return true;
}

void Membership::OnExpertResults(uint32_t hub, Outcome outcome) {
  auto& results = std::get<ExpertResults>(outcome);
  experts_time_ = results.computed;
  auto reliable = SendSums(hub, std::move(results.results));
  if (!reliable.empty()) SayShards(hub, std::move(reliable));
  CarryHub();
}

void Membership::SayHeartbeats() {
  if (!connected_) return;
  wire::Heartbeat heartbeat;
  heartbeat.waiting = experts_.count() + (running_ && running_->experts_for ? 1 : 0);
  heartbeat.compute_us = static_cast<uint32_t>(experts_time_.us);
  heartbeat.held_bytes = experts_bytes_;
  heartbeat.max_message_bytes = static_cast<uint32_t>(wire::kMaxShardRowBytes);
  for (const uint32_t hub : experts_.hubs()) SayShards(hub, {wire::HeartbeatFrame(heartbeat)});
  if (auto report = hub_.Report(now_)) {
    pb::WorkerMessage message;
    *message.mutable_loss_report() = *std::move(report);
    Say(std::move(message));
  }
  if (auto stats = hub_.TakeStats(now_)) {
    pb::WorkerMessage message;
    *message.mutable_holder_stats() = *std::move(stats);
    Say(std::move(message));
  }
}

}  // namespace weft::worker
