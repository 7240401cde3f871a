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
  // Where others may reach it.
  virtual std::vector<DatagramAddress> Addresses() const = 0;
};

}  // namespace weft
