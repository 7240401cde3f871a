// Membership's part for sums that go as datagrams: to hubs that offer a channel, and from holders.
#include <algorithm>

#include "base/log.h"
#include "worker/membership.h"

namespace weft::worker {

namespace pb = wire::pb;

// What a hub offers anew takes the place of what it offered before. Hubs are workers like this one:
// what cannot be read is no reason to leave the server.
void Membership::OnChannel(uint32_t hub, const wire::ExpertFrame& frame) {
  const auto channel = wire::ReadChannel(frame);
  if (!offer_.datagrams || !channel.ok() || !channel_limit_.Take(now_, hub)) return;
  senders_.erase(hub);
  if (senders_.size() >= ChannelLimit::kMostHubs) {
    const auto unused = std::find_if(senders_.begin(), senders_.end(),
                                     [](const auto& each) { return !each.second.is_ready(); });
    if (unused == senders_.end()) return;
    senders_.erase(unused);
  }
  senders_.emplace(hub, dispatch::SumSender(now_, *channel));
}

// Challenges are for what this worker sends, everything else is for its own layers.
void Membership::On(DatagramReceived& event) {
  const bool is_challenge = event.bytes.size() > 1 &&
                            event.bytes[1] == static_cast<uint8_t>(wire::DatagramType::kChallenge);
  if (is_challenge)
    for (auto& [hub, sender] : senders_) sender.OnDatagram(now_, event.from, event.bytes);
  else
    hub_.OnDatagram(now_, event.from, event.bytes);
  CarryHub();
}

void Membership::CarrySenders() {
  for (auto& [hub, sender] : senders_) {
    if (auto datagrams = sender.TakeDatagrams(); !datagrams.empty())
      actions_.push_back(SendDatagrams{std::move(datagrams)});
    const std::optional<bool> answer = sender.TakeAnswer();
    if (!answer) continue;
    if (*answer)
      LogInfo("what neuron groups add up to goes to worker {} as datagrams", hub);
    else
      LogWarn(
          "no datagram gets to worker {} and back (UDP is blocked?): what neuron groups add up "
          "to goes over the WebSocket, where nothing is lost",
          hub);
    SayShards(hub, {wire::ReadyFrame({sender.epoch(), *answer})});
  }
}

std::vector<wire::ExpertFrame> Membership::SendSums(uint32_t hub,
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
    sender.Send(now_, of, groups, rows, result.hidden);
    if (std::find(sent.begin(), sent.end(), of) == sent.end()) sent.push_back(of);
  }
  for (const wire::SumsOf& of : sent) sender.End(now_, of);
  return others;
}

void Membership::SayLosses(uint64_t step, uint32_t place) {
  const std::map<uint32_t, uint32_t>& lost = hub_.LostOf(place);
  if (lost.empty()) return;
  StepAnswer& answer = step_answers_.at(step - first_step_);
  auto& message = *answer.before.emplace().mutable_groups_lost();
  message.set_sequence(answer.sequence);
  message.set_epoch(answer.epoch);
  for (const auto& [session, groups] : lost) {
    message.add_sessions(session);
    message.add_groups(groups);
  }
}

}  // namespace weft::worker
