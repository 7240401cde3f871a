#include "dispatch/hub_channel.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::dispatch {
namespace {

constexpr Duration kProbeInterval = Milliseconds(100);
constexpr Duration kProbeLimit = Seconds(1);
// What a line and a switch take in one go: 32 datagrams. Every device may send so many at once, so
// eight of them fill 300 KB of the buffers of whatever stands in front of the hub.
constexpr double kBurstBytes = 32.0 * wire::kMaxDatagramBytes;
// What waits for the pace is of no use when it comes much later; this much of it may always wait.
constexpr double kMostQueuedMs = 100;
constexpr double kLeastQueueBytes = 64.0 * 1024;
// A kSent that is lost makes the hub wait; it has 40 bytes.
constexpr int kSentCopies = 2;

}  // namespace

HubChannel::HubChannel(Instant now, const wire::TensorChannel& agreed)
    : agreed_(agreed),
      sealer_(agreed.channel, agreed.up),
      opener_(agreed.channel, agreed.down),
      began_(now),
      credit_bytes_(kBurstBytes),
      credited_at_(now) {
  Probe(now);
}

void HubChannel::Probe(Instant now) {
  const std::vector<uint8_t> padding(wire::kProbeBodyBytes, 0);
  for (const DatagramAddress& address : agreed_.addresses)
    out_.push_back({address, sealer_.Seal(wire::DatagramType::kProbe, padding)});
  next_probe_ = now + kProbeInterval;
}

std::optional<std::vector<Slice>> HubChannel::OnDatagram(Instant now, const DatagramAddress& from,
                                                         ByteSpan datagram) {
  const auto opened = opener_.Open(datagram);
  if (!opened) return std::nullopt;
  using Type = wire::DatagramType;
  if (opened->type == Type::kPacket || opened->type == Type::kReceived ||
      opened->type == Type::kParity) {
    if (state_ != State::kReady) return std::vector<Slice>();
    hub_has_messages_ = hub_has_messages_ || opened->type == Type::kPacket;
    return line_.OnBody(now, opened->type, opened->body);
  }
  if (opened->type != Type::kChallenge || state_ == State::kBlocked) return std::vector<Slice>();
  // A challenge that somebody caught and sent on must not lead the sums to him.
  if (std::ranges::find(agreed_.addresses, from) == agreed_.addresses.end())
    return std::vector<Slice>();
  if (state_ == State::kProbes) {
    hub_ = from;
    state_ = State::kReady;
    answer_ = true;
    credited_at_ = now;
  } else if (from != hub_) {
    return std::vector<Slice>();
  }
  // The one before may have been lost.
  out_.push_back({hub_, sealer_.Seal(Type::kProof, opened->body)});
  return std::vector<Slice>();
}

std::vector<OutgoingDatagram> HubChannel::TakeDatagrams() {
  // The hub asks again then, by another way.
  if (line_.is_broken() && !std::exchange(has_told_break_, true)) answer_ = false;
  std::vector<OutgoingDatagram> out = std::exchange(out_, {});
  for (const MessageLine::Body& body : line_.TakeBodies())
    out.push_back({hub_, sealer_.Seal(body.type, body.bytes)});
  return out;
}

void HubChannel::OnTimer(Instant now) {
  if (state_ == State::kReady) {
    line_.OnTimer(now);
    return Flush(now);
  }
  if (state_ == State::kBlocked || now < next_probe_) return;
  if (now - began_ < kProbeLimit) return Probe(now);
  state_ = State::kBlocked;
  answer_ = false;
}

bool HubChannel::HasRoomFor(size_t rows, size_t columns) const {
  const double most_bytes = std::max(kLeastQueueBytes, kMostQueuedMs * agreed_.bytes_per_ms);
  return static_cast<double>(queued_bytes_ + rows * columns * sizeof(float)) <= most_bytes;
}

void HubChannel::Queue(std::vector<uint8_t> datagram) {
  queued_bytes_ += datagram.size();
  queue_.push_back(std::move(datagram));
}

void HubChannel::Send(Instant now, const wire::SumsOf& of, const wire::GroupSet& groups,
                      std::span<const float> rows, size_t columns) {
  CHECK(is_ready() && columns > 0 && rows.size() % columns == 0);
  CHECK(rows.size() / columns <= kMostRows);
  for (size_t row = 0; row < rows.size() / columns; ++row)
    for (const std::vector<uint8_t>& body : wire::SumsBodies(of, static_cast<uint16_t>(row), groups,
                                                             rows.subspan(row * columns, columns)))
      Queue(sealer_.Seal(wire::DatagramType::kSums, body));
  Flush(now);
}

void HubChannel::End(Instant now, const wire::SumsOf& of) {
  for (int copy = 0; copy < kSentCopies; ++copy)
    Queue(sealer_.Seal(wire::DatagramType::kSent, wire::SentBody(of)));
  Flush(now);
}

void HubChannel::Flush(Instant now) {
  const double gained = static_cast<double>((now - credited_at_).us) * agreed_.bytes_per_ms * 1e-3;
  credit_bytes_ = std::min(kBurstBytes, credit_bytes_ + std::max(0.0, gained));
  credited_at_ = now;
  while (!queue_.empty() && credit_bytes_ >= static_cast<double>(queue_.front().size())) {
    credit_bytes_ -= static_cast<double>(queue_.front().size());
    queued_bytes_ -= queue_.front().size();
    out_.push_back({hub_, std::move(queue_.front())});
    queue_.pop_front();
  }
}

std::optional<Instant> HubChannel::timer() const {
  if (state_ == State::kProbes) return next_probe_;
  const std::optional<Instant> of_line = line_.timer();
  if (queue_.empty()) return of_line;
  const double missing = static_cast<double>(queue_.front().size()) - credit_bytes_;
  const Instant flush =
      credited_at_ +
      Microseconds(1 + static_cast<int64_t>(std::ceil(1e3 * missing / agreed_.bytes_per_ms)));
  return of_line ? std::min(*of_line, flush) : flush;
}

}  // namespace weft::dispatch
