// A hub's ends of its channels to holders (wire/tensor_channel.h): agrees on them, opens what
// comes, and measures how much is lost. Holders send sums on a channel, and both ends send messages
// (message_line.h). A state machine without sockets, clock, threads or randomness of its own.
// Whoever has not shown that it listens at an address gets nothing there but a challenge, no longer
// than the probe that asked for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/datagram_address.h"
#include "dispatch/message_line.h"
#include "wire/tensor_channel.h"

namespace weft::dispatch {

// How it goes with a holder's datagrams.
enum class ChannelState : uint8_t { kAsked, kReady, kBlocked };

class HolderChannels {
 public:
  // A channel that does not work is tried again after 2, 4, 8 and 16 s, and then every 30 s. A
  // machine that was only busy has its datagrams back soon, and one that blocks them costs little.
  static constexpr Duration kFirstRetry = Seconds(2), kRetry = Seconds(30);

  struct Options {
    std::vector<DatagramAddress> addresses;  // of this hub; none: there are no channels
    std::function<void(MutableByteSpan)> random;
    double bytes_per_ms = 125'000;  // of the line to the hub, for all holders: 1 Gbit/s
  };
  explicit HolderChannels(Options options) : options_(std::move(options)) {}

  // Who has a channel, all of them; true: messages may go on it.
  void SetHolders(Instant now, const std::map<uint32_t, bool>& holders);
  void OnReady(Instant now, uint32_t holder, const wire::ChannelReady& answer);
  // Nothing of several exchanges came: the holder is asked whether datagrams still get here.
  void Doubt(Instant now, uint32_t holder);
  void OnTimer(Instant now);

  struct Heard {
    uint32_t holder = 0;
    wire::DatagramType type = wire::DatagramType::kSums;
    std::vector<uint8_t> body;    // of kSums and kSent
    std::vector<Slice> messages;  // of all others
  };
  // What is authentic, each once: kSums, kSent, and what belongs to messages.
  std::optional<Heard> OnDatagram(Instant now, const DatagramAddress& from, ByteSpan datagram);
  // Whether a message of so many bytes can go to this holder on its channel now.
  bool HasRoomFor(uint32_t holder, size_t byte_count) const;
  // REQUIRES: HasRoomFor(holder, message.size()).
  void Send(Instant now, uint32_t holder, std::vector<uint8_t> message);

  ChannelState StateOf(uint32_t holder) const;
  // Of what the holder sent lately, 0 where nothing is known.
  double LossOf(uint32_t holder) const;
  uint64_t faults(wire::DatagramFault fault) const { return faults_[static_cast<size_t>(fault)]; }
  uint64_t accepted() const { return accepted_; }

  // To be said to holders over the reliable line.
  std::vector<std::pair<uint32_t, wire::TensorChannel>> TakeAgreements() {
    return std::exchange(agreements_, {});
  }
  std::vector<OutgoingDatagram> TakeDatagrams();
  // Holders that messages do not get to any more. What was under way may not have come.
  std::vector<uint32_t> TakeBroken(Instant now);
  std::optional<Instant> timer() const;

 private:
  struct Channel {
    uint16_t number = 0;
    wire::DatagramChannel agreed;
    ChannelState state = ChannelState::kAsked;
    std::optional<wire::DatagramOpener> opener;
    std::optional<wire::DatagramSealer> sealer;
    bool has_messages = false;
    std::optional<MessageLine> line;  // once messages may go to where it listens
    wire::AddressProof<DatagramAddress> proof;
    // Loss: of the sequences since `counted_from`, so many had come then.
    uint64_t counted_from = 0, accepted_then = 0;
    std::optional<double> loss;
    std::optional<Instant> retry_at, challenge_at, worked_from;
    Instant last_heard;
    Duration retry_after = kFirstRetry;
  };

  void Agree(Instant now, uint32_t holder, Channel& channel);
  static void RetryLater(Instant now, Channel& channel);
  static void OpenLine(Channel& channel);
  void ChallengeAgain(Instant now, Channel& channel);
  static void MeasureLoss(Channel& channel);

  Options options_;
  std::map<uint32_t, Channel> channels_;  // by holder
  uint16_t last_number_ = 0;
  uint32_t last_key_epoch_ = 0;
  std::array<uint64_t, wire::kDatagramFaults> faults_{};
  uint64_t accepted_ = 0;
  std::vector<std::pair<uint32_t, wire::TensorChannel>> agreements_;
  std::vector<OutgoingDatagram> out_;
  std::vector<uint32_t> given_up_;  // holders that say that their messages do not get here
};

}  // namespace weft::dispatch
