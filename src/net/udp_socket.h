// A UDP socket sends datagrams at once from any thread, and receives them on the event loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/datagram_address.h"
#include "base/result.h"
#include "net/loop.h"

namespace weft::net {

class UdpSocket : public DatagramSender {
 public:
  // Opens a socket at this address and port; port 0 is any free one. "0.0.0.0" and "::" are all of
  // this machine's addresses. The buffers have room for what several devices send at once.
  // kUnavailable names what the system said.
  static Result<std::shared_ptr<UdpSocket>> Open(EventLoop& loop, const std::string& address,
                                                 uint16_t port);
  ~UdpSocket() override;

  // Calls `on_datagram` on the loop until Stop. Call it on the loop's thread.
  using OnDatagram = std::function<void(ReceivedDatagram)>;
  void Receive(OnDatagram on_datagram);
  void Stop();

  // Sends from any thread. Whatever the system does not take at once is lost.
  void Send(std::span<const OutgoingDatagram> datagrams) override;
  void AfterReceived(std::function<void()> then) override;
  void TakeReceived(const OnDatagram& take) override;
  void SetPolled(bool is_polled) override;
  // Gives all of this machine's addresses, loopback last, where the socket is bound to all.
  std::vector<DatagramAddress> Addresses() const override { return addresses_; }
  uint16_t port() const;

 private:
  struct State;
  UdpSocket(std::shared_ptr<State> state, std::vector<DatagramAddress> addresses)
      : state_(std::move(state)), addresses_(std::move(addresses)) {}

  std::shared_ptr<State> state_;
  std::vector<DatagramAddress> addresses_;
};

// Reads an address. kInvalidArgument: the text is not that of an IP address.
Result<DatagramAddress> ToDatagramAddress(const std::string& ip, uint16_t port);

}  // namespace weft::net
