#include "wire/datagram.h"

#include <algorithm>

#include "base/check.h"

namespace weft::wire {
namespace {

AeadNonce NonceOf(uint64_t sequence) {
  AeadNonce nonce{};
  StoreLe(nonce.data() + 4, sequence);
  return nonce;
}

}  // namespace

std::string_view DatagramFaultName(DatagramFault fault) {
  static constexpr std::string_view kNames[kDatagramFaults] = {
      "truncated", "oversized", "version", "type",   "channel",
      "key_epoch", "replayed",  "late",    "forged",
  };
  return kNames[static_cast<size_t>(fault)];
}

std::vector<uint8_t> DatagramSealer::Seal(DatagramType type, ByteSpan body) {
  CHECK(body.size() <= kMaxDatagramBodyBytes);
  std::vector<uint8_t> datagram(kDatagramOverheadBytes + body.size());
  datagram[0] = kDatagramVersion;
  datagram[1] = static_cast<uint8_t>(type);
  StoreLe(datagram.data() + 2, channel_.channel);
  StoreLe(datagram.data() + 4, channel_.key_epoch);
  StoreLe(datagram.data() + 8, ++last_sequence_);
  const MutableByteSpan bytes(datagram);
  aead_.Seal(NonceOf(last_sequence_), bytes.first(kDatagramHeaderBytes), body,
             bytes.subspan(kDatagramHeaderBytes));
  return datagram;
}

bool ReplayWindow::Bit(uint64_t sequence) const {
  return (bits_[sequence % kBits / 64] >> (sequence % 64) & 1) != 0;
}

std::optional<DatagramFault> ReplayWindow::Refusal(uint64_t sequence) const {
  if (sequence == 0) return DatagramFault::kReplayed;  // never sent
  if (sequence > highest_) return std::nullopt;
  if (highest_ - sequence >= kBits) return DatagramFault::kLate;
  if (Bit(sequence)) return DatagramFault::kReplayed;
  return std::nullopt;
}

void ReplayWindow::Accept(uint64_t sequence) {
  // What the window moves over was not accepted: at most all of it is cleared.
  for (uint64_t next = highest_ + 1, last = std::min(sequence, highest_ + kBits);
       sequence > highest_ && next <= last; ++next) {
    bits_[next % kBits / 64] &= ~(uint64_t{1} << (next % 64));
  }
  highest_ = std::max(highest_, sequence);
  bits_[sequence % kBits / 64] |= uint64_t{1} << (sequence % 64);
}

std::optional<DatagramFault> DatagramOpener::Check(ByteSpan datagram) const {
  if (datagram.size() < kDatagramOverheadBytes) return DatagramFault::kTruncated;
  if (datagram.size() > kMaxDatagramBytes) return DatagramFault::kOversized;
  if (datagram[0] != kDatagramVersion) return DatagramFault::kVersion;
  if (datagram[1] < static_cast<uint8_t>(DatagramType::kProbe) ||
      datagram[1] > static_cast<uint8_t>(DatagramType::kParity))
    return DatagramFault::kType;
  if (LoadLe<uint16_t>(datagram.data() + 2) != channel_.channel) return DatagramFault::kChannel;
  if (LoadLe<uint32_t>(datagram.data() + 4) != channel_.key_epoch) return DatagramFault::kKeyEpoch;
  return window_.Refusal(LoadLe<uint64_t>(datagram.data() + 8));
}

std::optional<OpenedDatagram> DatagramOpener::Open(ByteSpan datagram) {
  const auto drop = [&](DatagramFault fault) {
    ++faults_[static_cast<size_t>(fault)];
    return std::nullopt;
  };
  if (const auto fault = Check(datagram)) return drop(*fault);
  OpenedDatagram opened;
  opened.type = static_cast<DatagramType>(datagram[1]);
  opened.sequence = LoadLe<uint64_t>(datagram.data() + 8);
  opened.body.resize(datagram.size() - kDatagramOverheadBytes);
  if (!aead_.Open(NonceOf(opened.sequence), datagram.first(kDatagramHeaderBytes),
                  datagram.subspan(kDatagramHeaderBytes), opened.body))
    return drop(DatagramFault::kForged);
  window_.Accept(opened.sequence);
  ++accepted_;
  return opened;
}

}  // namespace weft::wire
