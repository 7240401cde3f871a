// Datagrams between a hub and the devices of a tensor group are sealed, and each is accepted once.
// Rows go only to an address that has shown that it listens there. A state machine without sockets
// and without a clock. All numbers are little-endian.
//
//   0  u8   version of this layout (1)
//   1  u8   type
//   2  u16  channel: which of the receiver's channels, agreed with its keys
//   4  u32  key epoch
//   8  u64  sequence, from 1, of this direction of the channel
//   16      ChaCha20-Poly1305 of the body, then its tag (16 bytes)
//
// The first 16 bytes are authenticated; the nonce is four zeros and the sequence. Keys, one for
// each direction, come over the worker's WebSocket and are new for every key epoch
// (docs/tensor-groups.md), so that no nonce repeats.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/aead.h"
#include "base/bytes.h"

namespace weft::wire {

inline constexpr uint8_t kDatagramVersion = 1;
inline constexpr size_t kDatagramHeaderBytes = 16;
inline constexpr size_t kDatagramOverheadBytes = kDatagramHeaderBytes + kAeadTagBytes;
// Below the path's MTU everywhere that IPv6 goes: 1,280 less 48 bytes of headers.
inline constexpr size_t kMaxDatagramBytes = 1232;
inline constexpr size_t kMaxDatagramBodyBytes = kMaxDatagramBytes - kDatagramOverheadBytes;

enum class DatagramType : uint8_t {
  kProbe = 1,      // from a device, first and whenever its address may have changed: padding
  kChallenge = 2,  // from the hub: 8 random bytes
  kProof = 3,      // from the device: the same 8
  kPacket = 4,     // of a message, either way (dispatch/message_line.h)
  kSums = 5,       // from a device: what its groups add up to (wire/group_sums.h)
  kReceived = 6,   // which packets came
  kSent = 7,       // from a device: that all kSums of an exchange are on their way (SumsOf)
  kParity = 8,     // of several packets
};

// Why a datagram was dropped.
enum class DatagramFault : uint8_t {
  kTruncated,  // shorter than header and tag
  kOversized,
  kVersion,
  kType,
  kChannel,
  kKeyEpoch,
  kReplayed,  // its sequence was accepted before
  kLate,      // too far behind to know whether it was
  kForged,    // the tag does not fit
};
inline constexpr size_t kDatagramFaults = 9;
std::string_view DatagramFaultName(DatagramFault fault);

struct DatagramChannel {
  uint16_t channel = 0;
  uint32_t key_epoch = 0;
  bool operator==(const DatagramChannel&) const = default;
};

// Seals what goes one way.
class DatagramSealer {
 public:
  DatagramSealer(DatagramChannel channel, const AeadKey& key) : channel_(channel), aead_(key) {}

  // REQUIRES: at most kMaxDatagramBodyBytes.
  std::vector<uint8_t> Seal(DatagramType type, ByteSpan body);

 private:
  DatagramChannel channel_;
  Aead aead_;
  uint64_t last_sequence_ = 0;
};

// Which of the last sequences were accepted (as IPsec does, RFC 4303 3.4.3).
class ReplayWindow {
 public:
  static constexpr uint64_t kBits = 1024;

  // Nothing, or why a datagram of this sequence must not be accepted.
  std::optional<DatagramFault> Refusal(uint64_t sequence) const;
  // REQUIRES: no refusal.
  void Accept(uint64_t sequence);
  uint64_t highest() const { return highest_; }

 private:
  bool Bit(uint64_t sequence) const;

  uint64_t highest_ = 0;
  std::array<uint64_t, kBits / 64> bits_{};
};

struct OpenedDatagram {
  DatagramType type = DatagramType::kProbe;
  uint64_t sequence = 0;
  std::vector<uint8_t> body;
};

// Opens what comes the other way; faults are counted.
class DatagramOpener {
 public:
  DatagramOpener(DatagramChannel channel, const AeadKey& key) : channel_(channel), aead_(key) {}

  // Nothing where it is dropped. Only what is authentic moves the window.
  std::optional<OpenedDatagram> Open(ByteSpan datagram);

  uint64_t faults(DatagramFault fault) const { return faults_[static_cast<size_t>(fault)]; }
  uint64_t accepted() const { return accepted_; }
  // Of those accepted: at least so many were sent.
  uint64_t highest_sequence() const { return window_.highest(); }

 private:
  std::optional<DatagramFault> Check(ByteSpan datagram) const;

  DatagramChannel channel_;
  Aead aead_;
  ReplayWindow window_;
  std::array<uint64_t, kDatagramFaults> faults_{};
  uint64_t accepted_ = 0;
};

// Whether a device is where its datagrams say that they come from. An authentic datagram may have
// been caught and sent on from somebody else's address. Until a challenge to that address was
// answered, at most as many bytes go there as came from there. A device that reaches a host at
// several addresses comes from several of its own, and answers the challenge that it heard first.
template <typename Address>
class AddressProof {
 public:
  using Challenge = std::array<uint8_t, 8>;
  struct Asked {
    Address address;
    Challenge challenge;
  };
  static constexpr size_t kMostAsked = 16;  // the latest

  // An authentic datagram that is no proof came from `from`, which may be new. `fresh` is random.
  // The challenge to send there, if one is due: it is never longer than what came.
  std::optional<Challenge> OnDatagram(const Address& from, const Challenge& fresh) {
    if (proven_ == from) return std::nullopt;
    const auto known = std::ranges::find(asked_, from, &Asked::address);
    if (known != asked_.end()) return known->challenge;
    if (asked_.size() == kMostAsked) asked_.erase(asked_.begin());
    asked_.push_back({from, fresh});
    return fresh;
  }
  // An authentic proof: the address is proven if it was asked there and answers what was asked.
  bool OnProof(const Address& from, ByteSpan body) {
    const auto asked = std::ranges::find(asked_, from, &Asked::address);
    if (asked == asked_.end() || !std::ranges::equal(body, asked->challenge)) return false;
    proven_ = from;
    asked_.clear();
    return true;
  }
  // Where rows may be sent.
  const std::optional<Address>& proven() const { return proven_; }
  // Where challenges were sent that are not answered, the oldest first.
  const std::vector<Asked>& asked() const { return asked_; }

 private:
  std::optional<Address> proven_;
  std::vector<Asked> asked_;
};

// Bytes of a probe's body, which is padding: a challenge is no longer than what asked for it.
inline constexpr size_t kProbeBodyBytes = 8;

}  // namespace weft::wire
