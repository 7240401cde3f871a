// A holder's end of a channel (wire/tensor_channel.h). It finds the hub's address, and sends
// the sums of its groups as datagrams, no faster than the hub allows. Messages go both ways
// (message_line.h). A state machine without sockets, clock or threads.
//
//   CHANNEL -> PROBE to every address, again every 100 ms
//           -> a CHALLENGE with this channel's key: PROOF, and sums go there from now on
//           -> none within a second: datagrams do not get there, sums stay on the reliable line
//
// Only who has the channel's key can challenge, so nothing but probes ever goes to anybody else.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/datagram_address.h"
#include "dispatch/message_line.h"
#include "wire/group_sums.h"
#include "wire/tensor_channel.h"

namespace weft::dispatch {

class HubChannel {
 public:
  // Rows of an exchange that may be sent so; more are for the reliable line.
  static constexpr uint32_t kMostRows = 16;

  HubChannel(Instant now, const wire::TensorChannel& agreed);

  bool is_ready() const { return state_ == State::kReady; }
  uint32_t key_epoch() const { return agreed_.channel.key_epoch; }
  // The messages that are whole now; nullopt: the datagram is not of this channel.
  std::optional<std::vector<Slice>> OnDatagram(Instant now, const DatagramAddress& from,
                                               ByteSpan datagram);
  void OnTimer(Instant now);
  // Whether a message of so many bytes can go to the hub on this channel now.
  bool HasRoomForMessage(size_t byte_count) const {
    return hub_has_messages_ && line_.HasRoomFor(byte_count);
  }
  // The hub's questions come by another way now, and there the answers go.
  void StopMessages() { hub_has_messages_ = false; }
  // REQUIRES: HasRoomForMessage(message.size()).
  void SendMessage(Instant now, std::vector<uint8_t> message) {
    line_.Send(now, std::move(message));
  }
  // Whether so many more rows get out in time at the pace that the hub allows. What does not is for
  // the reliable line, where it waits for nobody but its receiver.
  bool HasRoomFor(size_t rows, size_t columns) const;
  // `rows` [1 to kMostRows, columns], the sums of these groups. After all of an exchange: End.
  // REQUIRES: is_ready().
  void Send(Instant now, const wire::SumsOf& of, const wire::GroupSet& groups,
            std::span<const float> rows, size_t columns);

  void End(Instant now, const wire::SumsOf& of);

  // What goes out now.
  std::vector<OutgoingDatagram> TakeDatagrams();
  // Once, and when that ends: whether datagrams get to the hub.
  std::optional<bool> TakeAnswer() { return std::exchange(answer_, std::nullopt); }
  // When OnTimer is due.
  std::optional<Instant> timer() const;

 private:
  enum class State { kProbes, kReady, kBlocked };

  void Probe(Instant now);
  void Queue(std::vector<uint8_t> datagram);
  // As many as the pace allows.
  void Flush(Instant now);

  const wire::TensorChannel agreed_;
  wire::DatagramSealer sealer_;
  wire::DatagramOpener opener_;
  State state_ = State::kProbes;
  const Instant began_;
  Instant next_probe_;
  DatagramAddress hub_;
  // Hubs from before there were messages never send any.
  MessageLine line_;
  bool hub_has_messages_ = false;
  bool has_told_break_ = false;
  std::optional<bool> answer_;
  std::vector<OutgoingDatagram> out_;
  std::deque<std::vector<uint8_t>> queue_;
  size_t queued_bytes_ = 0;
  double credit_bytes_;  // that may go at once
  Instant credited_at_;
};

}  // namespace weft::dispatch
