#include "dispatch/holder_channels.h"

#include <algorithm>

namespace weft::dispatch {
namespace {

// Loss is measured over so many sequences at a time. The last ones may still be on their way.
constexpr uint64_t kLossSequences = 256;
constexpr double kNewLossShare = 0.25;
// A holder that heard a challenge has answered it. The answer may have been lost.
constexpr Duration kChallengeInterval = Milliseconds(100);
// Who is not heard for so long when a line breaks may not get any datagrams through.
constexpr Duration kSilence = Milliseconds(50);
// A holder probes all addresses of a hub, and may answer the challenge to its first probe.
static_assert(wire::AddressProof<DatagramAddress>::kMostAsked >= wire::kMostChannelAddresses);

}  // namespace

void HolderChannels::SetHolders(Instant now, const std::map<uint32_t, bool>& holders) {
  if (options_.addresses.empty() || !options_.random) return;
  std::erase_if(channels_, [&](const auto& each) { return !holders.contains(each.first); });
  for (const auto& [holder, has_messages] : holders) {
    const auto [channel, is_new] = channels_.try_emplace(holder);
    channel->second.has_messages = has_messages;
    if (!is_new) continue;
    channel->second.number = ++last_number_;
    Agree(now, holder, channel->second);
  }
}

// New keys for every key epoch: sequences begin at 1, and no key may seal two first datagrams.
void HolderChannels::Agree(Instant now, uint32_t holder, Channel& channel) {
  wire::TensorChannel agreed;
  agreed.channel = {channel.number, ++last_key_epoch_};
  agreed.addresses = options_.addresses;
  agreed.addresses.resize(std::min(agreed.addresses.size(), wire::kMostChannelAddresses));
  agreed.bytes_per_ms = static_cast<uint32_t>(
      std::max(1.0, options_.bytes_per_ms / static_cast<double>(channels_.size())));
  options_.random(agreed.up);
  options_.random(agreed.down);
  channel.agreed = agreed.channel;
  channel.state = ChannelState::kAsked;
  channel.opener.emplace(agreed.channel, agreed.up);
  channel.sealer.emplace(agreed.channel, agreed.down);
  channel.proof = {};
  channel.line.reset();
  channel.challenge_at.reset();
  channel.counted_from = channel.accepted_then = 0;
  agreements_.emplace_back(holder, std::move(agreed));
  RetryLater(now, channel);
}

// Tries are rarer and rarer, until the channel has worked for as long as the longest of them.
void HolderChannels::RetryLater(Instant now, Channel& channel) {
  const std::optional<Instant> worked_from = std::exchange(channel.worked_from, std::nullopt);
  if (worked_from && now - *worked_from >= kRetry) channel.retry_after = kFirstRetry;
  channel.retry_at = now + channel.retry_after;
  channel.retry_after = std::min(kRetry, channel.retry_after * 2);
}

void HolderChannels::OnReady(Instant now, uint32_t holder, const wire::ChannelReady& answer) {
  const auto found = channels_.find(holder);
  if (found == channels_.end() || found->second.agreed.key_epoch != answer.key_epoch) return;
  Channel& channel = found->second;
  channel.state = answer.ready ? ChannelState::kReady : ChannelState::kBlocked;
  if (!answer.ready && channel.line) {
    channel.line.reset();
    given_up_.push_back(holder);
  }
  if (answer.ready) {
    channel.retry_at.reset();
    channel.worked_from = now;
  } else if (!channel.retry_at) {
    RetryLater(now, channel);
  }
  // Probes went to all of the hub's addresses, and most of these do not exist for the holder.
  channel.counted_from = channel.opener->highest_sequence();
  channel.accepted_then = channel.opener->accepted();
  OpenLine(channel);
  if (channel.has_messages && answer.ready && !channel.proof.proven())
    channel.challenge_at = now + kChallengeInterval;
}

void HolderChannels::OpenLine(Channel& channel) {
  if (channel.has_messages && channel.state == ChannelState::kReady && channel.proof.proven() &&
      !channel.line)
    channel.line.emplace();
}

void HolderChannels::Doubt(Instant now, uint32_t holder) {
  const auto found = channels_.find(holder);
  if (found == channels_.end() || found->second.state != ChannelState::kReady) return;
  Agree(now, holder, found->second);
}

void HolderChannels::OnTimer(Instant now) {
  for (auto& [holder, channel] : channels_) {
    if (channel.line) channel.line->OnTimer(now);
    if (channel.challenge_at && now >= *channel.challenge_at) ChallengeAgain(now, channel);
    if (!channel.retry_at || now < *channel.retry_at) continue;
    Agree(now, holder, channel);
  }
}

void HolderChannels::ChallengeAgain(Instant now, Channel& channel) {
  channel.challenge_at.reset();
  if (channel.proof.proven() || channel.proof.asked().empty()) return;
  for (const auto& [address, challenge] : channel.proof.asked())
    out_.push_back({address, channel.sealer->Seal(wire::DatagramType::kChallenge, challenge)});
  channel.challenge_at = now + kChallengeInterval;
}

std::optional<Instant> HolderChannels::timer() const {
  std::optional<Instant> next;
  const auto consider = [&next](std::optional<Instant> due) {
    if (due && (!next || *due < *next)) next = due;
  };
  for (const auto& [holder, channel] : channels_) {
    consider(channel.retry_at);
    consider(channel.challenge_at);
    if (channel.line) consider(channel.line->timer());
  }
  return next;
}

bool HolderChannels::HasRoomFor(uint32_t holder, size_t byte_count) const {
  const auto found = channels_.find(holder);
  return found != channels_.end() && found->second.line &&
         found->second.line->HasRoomFor(byte_count);
}

void HolderChannels::Send(Instant now, uint32_t holder, std::vector<uint8_t> message) {
  channels_.at(holder).line->Send(now, std::move(message));
}

std::vector<uint32_t> HolderChannels::TakeBroken(Instant now) {
  std::vector<uint32_t> broken = std::exchange(given_up_, {});
  for (auto& [holder, channel] : channels_) {
    if (!channel.line || !channel.line->is_broken()) continue;
    channel.line.reset();
    // A channel on which some datagrams come does for sums that may be lost.
    if (now - channel.last_heard >= kSilence)
      Agree(now, holder, channel);
    else
      RetryLater(now, channel);
    broken.push_back(holder);
  }
  return broken;
}

std::vector<OutgoingDatagram> HolderChannels::TakeDatagrams() {
  std::vector<OutgoingDatagram> out = std::exchange(out_, {});
  for (auto& [holder, channel] : channels_) {
    if (!channel.line) continue;
    for (const MessageLine::Body& body : channel.line->TakeBodies())
      out.push_back({*channel.proof.proven(), channel.sealer->Seal(body.type, body.bytes)});
  }
  return out;
}

std::optional<HolderChannels::Heard> HolderChannels::OnDatagram(Instant now,
                                                                const DatagramAddress& from,
                                                                ByteSpan datagram) {
  const auto refuse = [&](wire::DatagramFault fault) {
    ++faults_[static_cast<size_t>(fault)];
    return std::nullopt;
  };
  if (datagram.size() < wire::kDatagramOverheadBytes)
    return refuse(wire::DatagramFault::kTruncated);
  const auto number = LoadLe<uint16_t>(datagram.data() + 2);
  const auto found = std::ranges::find_if(
      channels_, [number](const auto& each) { return each.second.number == number; });
  if (found == channels_.end()) return refuse(wire::DatagramFault::kChannel);
  Channel& channel = found->second;
  std::array<uint64_t, wire::kDatagramFaults> before{};
  for (size_t i = 0; i < before.size(); ++i)
    before[i] = channel.opener->faults(static_cast<wire::DatagramFault>(i));
  auto opened = channel.opener->Open(datagram);
  for (size_t i = 0; i < before.size(); ++i)
    faults_[i] += channel.opener->faults(static_cast<wire::DatagramFault>(i)) - before[i];
  if (!opened) return std::nullopt;
  ++accepted_;
  channel.last_heard = now;
  MeasureLoss(channel);
  using Type = wire::DatagramType;
  if (opened->type == Type::kSums || opened->type == Type::kSent)
    return Heard{found->first, opened->type, std::move(opened->body), {}};
  if (opened->type == Type::kPacket || opened->type == Type::kReceived ||
      opened->type == Type::kParity) {
    if (!channel.line) return std::nullopt;
    auto messages = channel.line->OnBody(now, opened->type, opened->body);
    return Heard{found->first, opened->type, {}, std::move(messages)};
  }
  if (opened->type == Type::kProof && channel.proof.OnProof(from, opened->body)) OpenLine(channel);
  if (opened->type != Type::kProbe) return std::nullopt;
  wire::AddressProof<DatagramAddress>::Challenge fresh{};
  options_.random(fresh);
  if (const auto challenge = channel.proof.OnDatagram(from, fresh);
      challenge && opened->body.size() >= challenge->size())
    out_.push_back({from, channel.sealer->Seal(Type::kChallenge, *challenge)});
  return std::nullopt;
}

void HolderChannels::MeasureLoss(Channel& channel) {
  const uint64_t sent = channel.opener->highest_sequence() - channel.counted_from;
  if (channel.state != ChannelState::kReady || sent < kLossSequences) return;
  const uint64_t came = channel.opener->accepted() - channel.accepted_then;
  const double lost = 1 - std::min(1.0, static_cast<double>(came) / static_cast<double>(sent));
  channel.loss = channel.loss ? (1 - kNewLossShare) * *channel.loss + kNewLossShare * lost : lost;
  channel.counted_from += sent;
  channel.accepted_then += came;
}

ChannelState HolderChannels::StateOf(uint32_t holder) const {
  const auto found = channels_.find(holder);
  return found == channels_.end() ? ChannelState::kBlocked : found->second.state;
}

double HolderChannels::LossOf(uint32_t holder) const {
  const auto found = channels_.find(holder);
  return found == channels_.end() ? 0 : found->second.loss.value_or(0);
}

}  // namespace weft::dispatch
