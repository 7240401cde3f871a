#include "dispatch/sum_sender.h"

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

SumSender::SumSender(Instant now, const wire::TensorChannel& agreed)
    : agreed_(agreed),
      sealer_(agreed.channel, agreed.up),
      opener_(agreed.channel, agreed.down),
      began_(now),
      credit_bytes_(kBurstBytes),
      credited_at_(now) {
  Probe(now);
}

void SumSender::Probe(Instant now) {
  const std::vector<uint8_t> padding(wire::kProbeBodyBytes, 0);
  for (const DatagramAddress& address : agreed_.addresses)
    out_.push_back({address, sealer_.Seal(wire::DatagramType::kProbe, padding)});
  next_probe_ = now + kProbeInterval;
}

void SumSender::OnDatagram(Instant now, const DatagramAddress& from, ByteSpan datagram) {
  const auto opened = opener_.Open(datagram);
  if (!opened || opened->type != wire::DatagramType::kChallenge || state_ != State::kProbes) return;
  // A challenge that somebody caught and sent on must not lead the sums to him.
  if (std::ranges::find(agreed_.addresses, from) == agreed_.addresses.end()) return;
  hub_ = from;
  state_ = State::kReady;
  answer_ = true;
  credited_at_ = now;
  out_.push_back({hub_, sealer_.Seal(wire::DatagramType::kProof, opened->body)});
}

void SumSender::OnTimer(Instant now) {
  if (state_ == State::kReady) return Flush(now);
  if (state_ == State::kBlocked || now < next_probe_) return;
  if (now - began_ < kProbeLimit) return Probe(now);
  state_ = State::kBlocked;
  answer_ = false;
}

bool SumSender::HasRoomFor(size_t rows, size_t columns) const {
  const double most_bytes = std::max(kLeastQueueBytes, kMostQueuedMs * agreed_.bytes_per_ms);
  return static_cast<double>(queued_bytes_ + rows * columns * sizeof(float)) <= most_bytes;
}

void SumSender::Queue(std::vector<uint8_t> datagram) {
  queued_bytes_ += datagram.size();
  queue_.push_back(std::move(datagram));
}

void SumSender::Send(Instant now, const wire::SumsOf& of, const wire::GroupSet& groups,
                     std::span<const float> rows, size_t columns) {
  CHECK(is_ready() && columns > 0 && rows.size() % columns == 0);
  CHECK(rows.size() / columns <= kMostRows);
  for (size_t row = 0; row < rows.size() / columns; ++row)
    for (const std::vector<uint8_t>& body : wire::SumsBodies(of, static_cast<uint16_t>(row), groups,
                                                             rows.subspan(row * columns, columns)))
      Queue(sealer_.Seal(wire::DatagramType::kSums, body));
  Flush(now);
}

void SumSender::End(Instant now, const wire::SumsOf& of) {
  for (int copy = 0; copy < kSentCopies; ++copy)
    Queue(sealer_.Seal(wire::DatagramType::kSent, wire::SentBody(of)));
  Flush(now);
}

void SumSender::Flush(Instant now) {
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

std::optional<Instant> SumSender::timer() const {
  if (state_ == State::kProbes) return next_probe_;
  if (queue_.empty()) return std::nullopt;
  const double missing = static_cast<double>(queue_.front().size()) - credit_bytes_;
  return credited_at_ +
         Microseconds(1 + static_cast<int64_t>(std::ceil(1e3 * missing / agreed_.bytes_per_ms)));
}

}  // namespace weft::dispatch
