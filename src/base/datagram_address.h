// Where a datagram comes from or goes to: an IPv6 address, or an IPv4 one as ::ffff:a.b.c.d, and a
// port. Plain values, which modules without sockets may keep and compare.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"

namespace weft {

struct DatagramAddress {
  std::array<uint8_t, 16> ip{};  // in network order
  uint16_t port = 0;
  auto operator<=>(const DatagramAddress&) const = default;
};

// A datagram to send.
struct OutgoingDatagram {
  DatagramAddress to;
  std::vector<uint8_t> bytes;
};

// One that has come.
struct ReceivedDatagram {
  DatagramAddress from;
  std::vector<uint8_t> bytes;
  Instant came;  // to this machine: before somebody had the time to look at it
};

// The socket behind those who have none. Any thread; what cannot be sent at once is lost, as
// datagrams may be. What is sent together is handed to the system together: apart, two processors
// may do it, and change the order.
class DatagramSender {
 public:
  virtual ~DatagramSender() = default;
  virtual void Send(std::span<const OutgoingDatagram> datagrams) = 0;
  // Any thread: `then` is called where datagrams are received, after those that are there by then.
  // Who gives up on a datagram has to know that it does not merely wait to be read.
  virtual void AfterReceived(std::function<void()> then) = 0;
  // Any thread: `take` gets on this thread what has come, and no one else gets that.
  virtual void TakeReceived(const std::function<void(ReceivedDatagram)>& take) = 0;
  // Any thread, one at a time: while it is polled, what comes waits for TakeReceived, and wakes
  // nobody up.
  virtual void SetPolled(bool is_polled) = 0;
  // Where others may reach it.
  virtual std::vector<DatagramAddress> Addresses() const = 0;
};

}  // namespace weft
