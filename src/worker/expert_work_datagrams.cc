// Channels of datagrams: of hubs that offer them, and to holders.
#include <algorithm>

#include "base/log.h"
#include "worker/expert_work.h"

namespace weft::worker {

// What a hub offers anew takes the place of what it offered before. Hubs are workers like this one:
// what cannot be read is no reason to leave the server.
void ExpertWork::OnChannel(uint32_t hub, const wire::ExpertFrame& frame) {
  const auto channel = wire::ReadChannel(frame);
  if (!datagrams_ || !channel.ok() || !channel_limit_.Take(out_.now(), hub)) return;
  senders_.erase(hub);
  if (senders_.size() >= ChannelLimit::kMostHubs) {
    const auto unused = std::find_if(senders_.begin(), senders_.end(),
                                     [](const auto& each) { return !each.second.is_ready(); });
    if (unused == senders_.end()) return;
    senders_.erase(unused);
  }
  senders_.emplace(hub, dispatch::HubChannel(out_.now(), *channel));
}

// What a hub sends opens with the key of its channel alone; everything else is for the hub here.
void ExpertWork::OnDatagram(const ReceivedDatagram& datagram) {
  const auto& [from, bytes, came] = datagram;
  for (auto& [hub, sender] : senders_) {
    const auto messages = sender.OnDatagram(out_.now(), from, bytes);
    if (!messages) continue;
    OnChannelMessages(hub, *messages, came);
    return Carry();
  }
  const auto heard = hub_.OnDatagram(out_.now(), from, bytes);
  OnChannelMessages(heard.holder, heard.messages, came);
  Carry();
}

void ExpertWork::OnChannelMessages(uint32_t peer, std::span<const Slice> messages, Instant came) {
  for (const Slice& message : messages) {
    const auto decoded = wire::DecodeShardMessage(message);
    if (decoded.ok())
      OnShardFrames(peer, decoded->frames, came);
    else
      hub_.OnMalformed(out_.now(), peer, decoded.error().message());
  }
}

bool ExpertWork::SayOnChannel(uint32_t hub, std::span<const wire::ExpertFrame> frames) {
  const auto sender = senders_.find(hub);
  if (sender == senders_.end() || frames.front().type != wire::ExpertFrameType::kResult)
    return false;
  if (frames.size() == wire::kMaxShardFrames) return false;
  std::vector<wire::ExpertFrame> with_time(frames.begin(), frames.end());
  with_time.push_back(wire::HeartbeatFrame(HeartbeatNow(false)));
  const auto pieces = wire::EncodeShardMessage(hub, with_time);
  if (!sender->second.HasRoomForMessage(wire::ByteCount(pieces))) return false;
  sender->second.SendMessage(out_.now(), wire::Joined(pieces));
  return true;
}

void ExpertWork::CarrySenders() {
  for (auto& [hub, sender] : senders_) {
    if (auto datagrams = sender.TakeDatagrams(); !datagrams.empty())
      out_.Do(SendDatagrams{std::move(datagrams)});
    const std::optional<bool> answer = sender.TakeAnswer();
    if (!answer) continue;
    if (*answer)
      LogInfo("datagrams get to worker {} and back", hub);
    else
      LogWarn(
          "no datagram gets to worker {} and back (UDP is blocked?): what is computed for it goes "
          "over the WebSocket",
          hub);
    Say(hub, {wire::ReadyFrame({sender.key_epoch(), *answer})});
  }
}

std::vector<wire::ExpertFrame> ExpertWork::SendSums(uint32_t hub,
                                                    std::vector<wire::ExpertFrame> results) {
  const auto found = senders_.find(hub);
  if (found == senders_.end() || !found->second.is_ready()) return results;
  dispatch::HubChannel& sender = found->second;
  std::vector<wire::ExpertFrame> others;
  std::vector<wire::SumsOf> sent;
  for (wire::ExpertFrame& result : results) {
    const uint32_t last = result.added.empty() ? result.expert : result.added.back();
    if (!result.may_lose || result.failed || result.tokens > dispatch::HubChannel::kMostRows ||
        last >= 8 * wire::kMaxGroupSetBytes || !sender.HasRoomFor(result.tokens, result.hidden)) {
      others.push_back(std::move(result));
      continue;
    }
    wire::GroupSet groups(last + 1);
    groups.Add(result.expert);
    for (const uint16_t expert : result.added) groups.Add(expert);
    std::vector<float> rows(size_t{result.tokens} * result.hidden);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = LoadLe<float>(result.rows.bytes().data() + i * sizeof(float));
    const wire::SumsOf of = {result.sequence, result.layer, wire::kMlpBlock};
    sender.Send(out_.now(), of, groups, rows, result.hidden);
    if (std::find(sent.begin(), sent.end(), of) == sent.end()) sent.push_back(of);
  }
  for (const wire::SumsOf& of : sent) sender.End(out_.now(), of);
  return others;
}

}  // namespace weft::worker
