#include "worker/expert_work.h"

namespace weft::worker {

namespace pb = wire::pb;

std::optional<std::vector<wire::LayerExperts>> ExpertWork::Hold(const pb::HoldExperts& message,
                                                                uint32_t layer_count) {
  if (!takes_experts_)
    out_.Violation("The server sent HoldExperts to a worker that takes no experts.");
  else if (message.binding() <= binding_)
    out_.Violation("The server sent HoldExperts of binding " + std::to_string(message.binding()) +
                   " after that of binding " + std::to_string(binding_) + ".");
  if (out_.ended()) return std::nullopt;
  auto sets = wire::ReadExpertSets(message.sets(), layer_count);
  if (!sets.ok()) {
    out_.Finish(std::move(sets).error());
    return std::nullopt;
  }
  binding_ = message.binding();
  // What it does not name is not computed any more; what it adds is, once it is loaded.
  queue_.HoldOnly(*sets);
  return std::move(sets).value();
}

void ExpertWork::OnInstalled(uint32_t binding, const std::vector<wire::LayerExperts>& sets,
                             uint64_t used_bytes) {
  used_bytes_ = used_bytes;
  queue_.Hold(sets);
  pb::WorkerMessage reply;
  reply.mutable_experts_held()->set_binding(binding);
  reply.mutable_experts_held()->set_used_bytes(used_bytes_);
  out_.Send(std::move(reply));
}

void ExpertWork::OnResults(uint32_t hub, ExpertResults results) {
  compute_time_ = results.computed;
  auto reliable = SendSums(hub, std::move(results.results));
  if (!reliable.empty()) Say(hub, std::move(reliable));
  Carry();
}

wire::Heartbeat ExpertWork::HeartbeatNow(bool computes_experts) const {
  wire::Heartbeat heartbeat;
  heartbeat.waiting = queue_.count() + (computes_experts ? 1 : 0);
  heartbeat.compute_us = static_cast<uint32_t>(compute_time_.us);
  heartbeat.held_bytes = used_bytes_;
  heartbeat.max_message_bytes = static_cast<uint32_t>(wire::kMaxShardRowBytes);
  return heartbeat;
}

void ExpertWork::SayHeartbeats(bool computes_experts) {
  if (!out_.connected()) return;
  const wire::Heartbeat heartbeat = HeartbeatNow(computes_experts);
  for (const uint32_t hub : queue_.hubs()) Say(hub, {wire::HeartbeatFrame(heartbeat)});
  if (auto report = hub_.Report(out_.now())) {
    pb::WorkerMessage message;
    *message.mutable_loss_report() = *std::move(report);
    out_.Send(std::move(message));
  }
  if (auto stats = hub_.TakeStats(out_.now())) {
    pb::WorkerMessage message;
    *message.mutable_holder_stats() = *std::move(stats);
    out_.Send(std::move(message));
  }
}

void ExpertWork::OnConnectionLost() {
  queue_.Clear();
  senders_.clear();
  binding_ = 0;
}

// Hubs are workers like this one, and the server forwards what they send without reading it: what
// cannot be read is nobody's question, and no reason to leave the server.
void ExpertWork::OnShards(const Slice& message, bool is_member) {
  if (!is_member || !(takes_experts_ || can_be_hub_))
    return out_.Violation("The server sent a shard message to a worker that holds no experts.");
  const auto decoded = wire::DecodeShardMessage(message);
  if (decoded.ok()) {
    const bool asks = decoded->frames.front().type == wire::ExpertFrameType::kDispatch;
    const auto channel = senders_.find(decoded->peer);
    if (asks && channel != senders_.end()) channel->second.StopMessages();
    return OnShardFrames(decoded->peer, decoded->frames);
  }
  const auto peer = wire::ShardPeer(message.bytes());
  if (!peer.ok()) return;
  hub_.OnMalformed(out_.now(), *peer, decoded.error().message());
  Carry();
}

// What a hub sends is for the experts here, what a holder sends is for the hub here.
void ExpertWork::OnShardFrames(uint32_t peer, std::span<const wire::ExpertFrame> frames,
                               std::optional<Instant> came) {
  std::vector<wire::ExpertFrame> refusals = queue_.Take(peer, frames);
  if (!refusals.empty()) Say(peer, std::move(refusals));
  for (const wire::ExpertFrame& frame : frames)
    if (frame.type == wire::ExpertFrameType::kChannel) OnChannel(peer, frame);
  hub_.Hear(out_.now(), peer, frames, came);
  Carry();
}

void ExpertWork::Say(uint32_t peer, std::vector<wire::ExpertFrame> frames) {
  if (peer == hub_.self() && peer != 0) return OnShardFrames(peer, frames);
  if (SayOnChannel(peer, frames)) return;
  out_.DoIfConnected(SendShards{peer, std::move(frames)});
}

void ExpertWork::OnHolders(const pb::ExpertHolders& message, uint32_t layer_count) {
  if (!can_be_hub_)
    return out_.Violation("The server sent ExpertHolders to a worker that cannot be a hub.");
  Status status = hub_.SetHolders(out_.now(), message, layer_count);
  if (!status.ok()) return out_.Finish(std::move(status).error());
  Carry();
}

void ExpertWork::OnTimer() {
  wakes_at_.reset();
  hub_.OnTimer(out_.now());
  for (auto& [hub, sender] : senders_) sender.OnTimer(out_.now());
  Carry();
}

void ExpertWork::ForgetHub() {
  hub_.Clear();
  Carry();
}

void ExpertWork::Carry() {
  for (dispatch::Send& send : hub_.TakeSends(out_.now())) Say(send.holder, std::move(send.frames));
  if (auto datagrams = hub_.TakeDatagrams(); !datagrams.empty())
    out_.Do(SendDatagrams{std::move(datagrams)});
  CarrySenders();
  std::optional<Instant> wanted = hub_.timer();
  for (const auto& [hub, sender] : senders_)
    if (const auto due = sender.timer(); due && (!wanted || *due < *wanted)) wanted = due;
  if (wanted == wakes_at_) return;
  wakes_at_ = wanted;
  out_.Do(WakeAt{wakes_at_});
}

}  // namespace weft::worker
