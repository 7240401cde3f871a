// A hub's ends of the channels on which holders send sums (wire/tensor_channel.h): agrees on them,
// opens what comes, and measures how much is lost. A state machine without sockets, clock, threads
// or randomness of its own. What it sends is challenges, which are no longer than the probes that
// asked for them.
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
#include "wire/tensor_channel.h"

namespace weft::dispatch {

// How it goes with a holder's datagrams.
enum class ChannelState : uint8_t { kAsked, kReady, kBlocked };

class SumChannels {
 public:
  // A channel that is blocked is tried again after this.
  static constexpr Duration kRetry = Seconds(30);

  struct Options {
    std::vector<DatagramAddress> addresses;  // of this hub; none: there are no channels
    std::function<void(MutableByteSpan)> random;
    double bytes_per_ms = 125'000;  // of the line to the hub, for all holders: 1 Gbit/s
  };
  explicit SumChannels(Options options) : options_(std::move(options)) {}

  // Who may send datagrams, all of them.
  void SetHolders(Instant now, std::span<const uint32_t> holders);
  void OnReady(Instant now, uint32_t holder, const wire::ChannelReady& answer);
  // Nothing of several exchanges came: the holder is asked whether datagrams still get here.
  void Doubt(Instant now, uint32_t holder);
  void OnTimer(Instant now);

  struct Heard {
    uint32_t holder = 0;
    wire::DatagramType type = wire::DatagramType::kSums;
    std::vector<uint8_t> body;
  };
  // kSums and kSent that are authentic, each once.
  std::optional<Heard> OnDatagram(const DatagramAddress& from, ByteSpan datagram);

  ChannelState StateOf(uint32_t holder) const;
  // Of what the holder sent lately, 0 where nothing is known.
  double LossOf(uint32_t holder) const;
  uint64_t faults(wire::DatagramFault fault) const { return faults_[static_cast<size_t>(fault)]; }
  uint64_t accepted() const { return accepted_; }

  // To be said to holders over the reliable line.
  std::vector<std::pair<uint32_t, wire::TensorChannel>> TakeAgreements() {
    return std::exchange(agreements_, {});
  }
  std::vector<OutgoingDatagram> TakeDatagrams() { return std::exchange(out_, {}); }
  std::optional<Instant> timer() const;

 private:
  struct Channel {
    uint16_t number = 0;
    wire::DatagramChannel agreed;
    ChannelState state = ChannelState::kAsked;
    std::optional<wire::DatagramOpener> opener;
    std::optional<wire::DatagramSealer> sealer;
    wire::AddressProof<DatagramAddress> proof;
    // Loss: of the sequences since `counted_from`, so many had come then.
    uint64_t counted_from = 0, accepted_then = 0;
    std::optional<double> loss;
    std::optional<Instant> retry_at;
  };

  void Agree(uint32_t holder, Channel& channel);
  static void MeasureLoss(Channel& channel);

  Options options_;
  std::map<uint32_t, Channel> channels_;  // by holder
  uint16_t last_number_ = 0;
  uint32_t last_key_epoch_ = 0;
  std::array<uint64_t, wire::kDatagramFaults> faults_{};
  uint64_t accepted_ = 0;
  std::vector<std::pair<uint32_t, wire::TensorChannel>> agreements_;
  std::vector<OutgoingDatagram> out_;
};

}  // namespace weft::dispatch
