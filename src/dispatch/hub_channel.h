// This is a holder's end of a channel for sums (wire/tensor_channel.h). It finds the hub's address,
// and sends the sums of its groups as datagrams, no faster than the hub allows. A state machine
// without sockets, clock or threads.
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
#include "wire/group_sums.h"
#include "wire/tensor_channel.h"

namespace weft::dispatch {

class SumSender {
 public:
  // Rows of an exchange that may be sent so; more are for the reliable line.
  static constexpr uint32_t kMostRows = 16;

  SumSender(Instant now, const wire::TensorChannel& agreed);

  bool is_ready() const { return state_ == State::kReady; }
  uint32_t key_epoch() const { return agreed_.channel.key_epoch; }
  void OnDatagram(Instant now, const DatagramAddress& from, ByteSpan datagram);
  void OnTimer(Instant now);
  // Whether so many more rows get out in time at the pace that the hub allows. What does not is for
  // the reliable line, where it waits for nobody but its receiver.
  bool HasRoomFor(size_t rows, size_t columns) const;
  // `rows` [1 to kMostRows, columns], the sums of these groups. After all of an exchange: End.
  // REQUIRES: is_ready().
  void Send(Instant now, const wire::SumsOf& of, const wire::GroupSet& groups,
            std::span<const float> rows, size_t columns);

  void End(Instant now, const wire::SumsOf& of);

  // What goes out now.
  std::vector<OutgoingDatagram> TakeDatagrams() { return std::exchange(out_, {}); }
  // Once: whether datagrams get to the hub.
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
  std::optional<bool> answer_;
  std::vector<OutgoingDatagram> out_;
  std::deque<std::vector<uint8_t>> queue_;
  size_t queued_bytes_ = 0;
  double credit_bytes_;  // that may go at once
  Instant credited_at_;
};

}  // namespace weft::dispatch
