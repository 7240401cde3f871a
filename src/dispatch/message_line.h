// A MessageLine is one end of a line between a hub and a holder. It carries messages in datagrams:
// whole, each once and in their order, whatever is lost on the way. It is a state machine without
// sockets, keys, clock or threads.
//
//   hub                                      holder
//    | packets 1 2 3 4 of a dispatch  ----->  | 3 is lost: RECEIVED says so at once
//    | <-----  RECEIVED: all below 3, and 4   |
//    | packet 3 again                 ----->  | the dispatch is whole, and is computed
//    | <-----  packets 1 2 3 of the answer,   |
//    |         which say: all below 5 came    |
//
// A packet says what came of the other way. So an answer confirms its question, and RECEIVED goes
// alone only where nothing else goes in time. Where packets get lost, one or two PARITYs go with
// every few of them, by which as many of these may be made again (parity.h).
//
// A packet is sent again when one that was sent after it has come and it had time to come, too
// (RACK, RFC 8985), or when nothing came for the usual time of an answer (RFC 6298).
//
// Bodies of datagrams (wire/datagram.h), numbers are little-endian:
//
//   PACKET, PARITY, RECEIVED           PACKET                          PARITY
//   0  u32 below which all came        12 u32 number, from 1           12 u32 its first packet
//   4  u64 which came behind the one   16 u16 place in its message     16 u8  how many packets
//      that is missing, bit by bit     18 u16 packets of the message   17 u8  0: P, 1: Q
//                                      20 bytes                        18 u16 lengths, combined
//                                                                      20 bytes, combined
//
// Devices from before there was Q drop it: they read bytes 16 and 17 as one number.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "dispatch/parity.h"
#include "wire/datagram.h"

namespace weft::dispatch {

class MessageLine {
 public:
  static constexpr size_t kReceivedBytes = 12, kHeadBytes = 20;
  static constexpr size_t kPacketBytes = wire::kMaxDatagramBodyBytes - kHeadBytes;
  // Packets on their way at a time, as many as kReceived can tell of.
  static constexpr size_t kWindow = 64;
  // What is sent so often, and nothing at all came meanwhile, ends the line.
  static constexpr uint32_t kMostSends = 8;

  // Whether a message of so many bytes may be sent now. Longer ones are for another line.
  bool HasRoomFor(size_t byte_count) const;
  // REQUIRES: HasRoomFor(message.size()); a message has at least one byte.
  void Send(Instant now, std::vector<uint8_t> message);
  // Takes an authentic body of these types, and gives the messages that are whole now, in order.
  // Bodies that no line could have sent are dropped.
  std::vector<Slice> OnBody(Instant now, wire::DatagramType type, ByteSpan body);
  void OnTimer(Instant now);
  // When OnTimer is due.
  std::optional<Instant> timer() const;

  struct Body {
    wire::DatagramType type = wire::DatagramType::kPacket;
    std::vector<uint8_t> bytes;
  };
  // What goes out now.
  std::vector<Body> TakeBodies();

  // Where more is lost another line is quicker.
  static constexpr double kMostLoss = 0.3;

  // Nothing gets to the other end, or too little. What was under way may or may not have come.
  bool is_broken() const { return is_broken_ || is_wrong_; }
  // The share of packets that were lost lately. All that an answer is late for count as one.
  double loss() const { return loss_; }

 private:
  // Of this end's packets.
  struct Packet {
    uint32_t number = 0;
    uint16_t place = 0, count = 0;
    std::vector<uint8_t> bytes;
    Instant first_sent, sent;
    uint64_t order = 0;  // of its last send, among all sends
    uint32_t sends = 0;
    bool has_come = false;
  };
  // Of the other end's.
  struct Came {
    uint16_t place = 0, count = 0;
    std::vector<uint8_t> bytes;
  };
  struct Parity {
    uint32_t first = 0;
    uint8_t count = 0;
    ParityKind kind = ParityKind::kP;
    std::vector<uint8_t> lengths_and_bytes;  // of packets, combined: the first two are the length

    uint32_t end() const { return first + count; }
    uint8_t FactorOf(uint32_t number) const { return ParityFactor(kind, number - first); }
  };

  void SendPacket(Instant now, Packet& packet);
  // Whether a packet was lost, 1, or was sent for the first time, 0.
  void NoteLoss(double lost);
  void QueueParities(uint32_t first, size_t count);
  void QueueParity(uint32_t first, size_t count, ParityKind kind);
  Duration AnswerTime(const Packet& packet) const;
  Duration TimeToCome() const;
  void OnReceived(Instant now, uint32_t below, uint64_t bits);
  void SampleAnswer(Duration time);
  void ResendOvertaken(Instant now);
  void OnPacket(Instant now, ByteSpan body);
  void OnParity(Instant now, ByteSpan body);
  bool Add(uint32_t number, Came packet);
  void Restore();
  void RestoreBy(const Parity& parity);
  void AddRestored(uint32_t number, const std::vector<uint8_t>& lengths_and_bytes, uint32_t beside);
  bool HasGap() const;
  void OweReceived(Instant now, Duration at_most);
  std::vector<Slice> Whole();
  std::vector<uint8_t> HeadOf(const Packet& packet) const;
  void StoreReceived(uint8_t* out) const;

  // ---- what this end sends ----
  uint32_t last_number_ = 0;
  std::deque<Packet> under_way_;    // by number; the first has not come
  uint64_t sends_ = 0;              // packets, again or not
  uint64_t newest_come_ = 0;        // the highest order of a packet that came
  std::optional<double> usual_us_;  // of an answer
  double deviation_us_ = 0;
  double loss_ = 0;
  bool is_broken_ = false;     // what comes is taken all the same
  std::vector<uint32_t> out_;  // numbers of packets that go out now
  std::vector<Parity> parities_out_;

  // ---- what comes ----
  Instant last_heard_;
  uint32_t next_ = 1;              // the first packet that is missing
  uint32_t next_message_ = 1;      // the first packet of the next message
  std::map<uint32_t, Came> came_;  // by number, from next_message_
  std::vector<Parity> parities_;   // that may be of use yet
  double restored_ = 0;            // the share of packets that parities gave lately
  std::optional<Instant> owes_received_;
  bool is_received_due_ = false;
  bool is_wrong_ = false;  // what came fits nowhere
};

}  // namespace weft::dispatch
