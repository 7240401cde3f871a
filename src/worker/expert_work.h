// Experts on other machines: what this worker holds for hubs and computes of their dispatches, and
// as a hub whom it asks. A part of membership (membership.h). In TypeScript, where there are no
// hubs: web/packages/worker/src/membership/expertWork.ts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "dispatch/hub_channel.h"
#include "worker/channel_limit.h"
#include "worker/expert_queue.h"
#include "worker/hub.h"
#include "worker/outbox.h"

namespace weft::worker {

class ExpertWork {
 public:
  // Without `random` it agrees on no datagrams as a hub.
  ExpertWork(Outbox& out, const Offer& offer, const dispatch::Options& dispatch,
             std::function<void(MutableByteSpan)> random)
      : out_(out),
        takes_experts_(offer.takes_experts),
        can_be_hub_(offer.can_be_hub),
        datagrams_(offer.datagrams),
        hub_(dispatch, {offer.datagram_addresses, std::move(random)}) {}

  // ---- as a holder ----

  // What is to be held from now on, all of it; nullopt, and the end: nobody may say so.
  std::optional<std::vector<wire::LayerExperts>> Hold(const wire::pb::HoldExperts& message,
                                                      uint32_t layer_count);
  // They are loaded.
  void OnInstalled(uint32_t binding, const std::vector<wire::LayerExperts>& sets,
                   uint64_t used_bytes);
  // The next message's dispatches, if there are any.
  std::optional<HubDispatches> Next() { return queue_.Next(); }
  bool has_dispatches() const { return !queue_.empty(); }
  void OnResults(uint32_t hub, ExpertResults results);
  // To every hub, how busy this worker is; and to the server what it wants to know of holders.
  void SayHeartbeats(bool computes_experts);
  // Nothing is held any more.
  void Release() { queue_.Clear(); }
  // The next connection begins with any binding.
  void OnConnectionLost();

  // ---- messages and datagrams ----

  // A shard message, to a worker that is a member or not.
  void OnShards(const Slice& message, bool is_member);
  void OnHolders(const wire::pb::ExpertHolders& message, uint32_t layer_count);
  void OnDatagram(const ReceivedDatagram& datagram);
  void OnTimer();

  // ---- as a hub ----

  // Its steps are for StepQueue to begin and to end.
  Hub& hub() { return hub_; }
  const Hub& hub() const { return hub_; }
  bool can_be_hub() const { return can_be_hub_; }
  // Nothing is under way any more and nobody can be asked.
  void ForgetHub();
  // Sends what the hub wants sent, and asks to be woken when it wants to be.
  void Carry();

 private:
  void OnShardFrames(uint32_t peer, std::span<const wire::ExpertFrame> frames,
                     std::optional<Instant> came = std::nullopt);
  wire::Heartbeat HeartbeatNow(bool computes_experts) const;
  // Those for this worker itself take no detour.
  void Say(uint32_t peer, std::vector<wire::ExpertFrame> frames);
  // Datagrams (expert_work_datagrams.cc).
  void OnChannel(uint32_t hub, const wire::ExpertFrame& frame);
  void CarrySenders();
  // What a hub or a holder has said on a channel.
  void OnChannelMessages(uint32_t peer, std::span<const Slice> messages, Instant came);
  // Answers to a hub that has said something on its channel, with the time that they took.
  bool SayOnChannel(uint32_t hub, std::span<const wire::ExpertFrame> frames);
  // Those that may be lost, where datagrams get to the hub; gives the others.
  std::vector<wire::ExpertFrame> SendSums(uint32_t hub, std::vector<wire::ExpertFrame> results);

  Outbox& out_;
  const bool takes_experts_, can_be_hub_, datagrams_;
  Hub hub_;
  std::optional<Instant> wakes_at_;  // as was asked for
  ExpertQueue queue_;
  std::map<uint32_t, dispatch::HubChannel> senders_;  // by hub
  ChannelLimit channel_limit_;
  uint32_t binding_ = 0;     // of the newest HoldExperts of this connection
  uint64_t used_bytes_ = 0;  // that the experts take
  Duration compute_time_;    // that the last dispatches took
};

}  // namespace weft::worker
