// Sums that go as datagrams: to hubs that offer a channel, and from holders.
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
  senders_.emplace(hub, dispatch::SumSender(out_.now(), *channel));
}

// Challenges are for what this worker sends, everything else is for its own layers.
void ExpertWork::OnDatagram(const DatagramAddress& from, ByteSpan bytes) {
  const bool is_challenge =
      bytes.size() > 1 && bytes[1] == static_cast<uint8_t>(wire::DatagramType::kChallenge);
  if (is_challenge)
    for (auto& [hub, sender] : senders_) sender.OnDatagram(out_.now(), from, bytes);
  else
    hub_.OnDatagram(out_.now(), from, bytes);
  Carry();
}

void ExpertWork::CarrySenders() {
  for (auto& [hub, sender] : senders_) {
    if (auto datagrams = sender.TakeDatagrams(); !datagrams.empty())
      out_.Do(SendDatagrams{std::move(datagrams)});
    const std::optional<bool> answer = sender.TakeAnswer();
    if (!answer) continue;
    if (*answer)
      LogInfo("what neuron groups add up to goes to worker {} as datagrams", hub);
    else
      LogWarn(
          "no datagram gets to worker {} and back (UDP is blocked?): what neuron groups add up "
          "to goes over the WebSocket, where nothing is lost",
          hub);
    Say(hub, {wire::ReadyFrame({sender.key_epoch(), *answer})});
  }
}

std::vector<wire::ExpertFrame> ExpertWork::SendSums(uint32_t hub,
                                                    std::vector<wire::ExpertFrame> results) {
  const auto found = senders_.find(hub);
  if (found == senders_.end() || !found->second.is_ready()) return results;
  dispatch::SumSender& sender = found->second;
  std::vector<wire::ExpertFrame> others;
  std::vector<wire::SumsOf> sent;
  for (wire::ExpertFrame& result : results) {
    const uint32_t last = result.added.empty() ? result.expert : result.added.back();
    if (!result.may_lose || result.failed || result.tokens > dispatch::SumSender::kMostRows ||
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
