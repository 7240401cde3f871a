#include "net/udp_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <cstring>

#include "net/address.h"
#include "net/loop_context.h"

namespace weft::net {
namespace {

namespace asio = boost::asio;
using asio::ip::udp;

// Of a receiving socket: eight devices that send a row of 8,192 columns each fill 300 KB of it, and
// whoever reads may be busy with a layer meanwhile. The system may give less.
constexpr int kBufferBytes = 4 << 20;
constexpr size_t kLongestDatagram = 2048;
// Datagrams that are read before other work of the loop has its turn.
constexpr int kAtOnce = 256;
constexpr std::array<uint8_t, 12> kMappedIPv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool IsIPv4(const DatagramAddress& address) {
  return std::equal(kMappedIPv4.begin(), kMappedIPv4.end(), address.ip.begin());
}

// The address as the system takes it; gives its length.
socklen_t Fill(const DatagramAddress& from, bool is_v4, sockaddr_storage& out) {
  if (is_v4) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(from.port);
    std::memcpy(&address.sin_addr, from.ip.data() + kMappedIPv4.size(), sizeof(address.sin_addr));
    std::memcpy(&out, &address, sizeof(address));
    return sizeof(address);
  }
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(from.port);
  std::memcpy(&address.sin6_addr, from.ip.data(), from.ip.size());
  std::memcpy(&out, &address, sizeof(address));
  return sizeof(address);
}

DatagramAddress FromEndpoint(const udp::endpoint& endpoint) {
  DatagramAddress address;
  address.port = endpoint.port();
  const auto ip = endpoint.address().is_v4()
                      ? asio::ip::make_address_v6(asio::ip::v4_mapped, endpoint.address().to_v4())
                      : endpoint.address().to_v6();
  std::ranges::copy(ip.to_bytes(), address.ip.begin());
  return address;
}

}  // namespace

struct UdpSocket::State : std::enable_shared_from_this<State> {
  explicit State(std::shared_ptr<LoopContext> made_on)
      : context(std::move(made_on)), socket(*context) {}

  void Wait() {
    socket.async_wait(udp::socket::wait_read,
                      [self = shared_from_this()](const boost::system::error_code& error) {
                        if (error || !self->on_datagram) return;
                        self->Read();
                        if (self->on_datagram) self->Wait();
                      });
  }
  void Read() {
    std::array<uint8_t, kLongestDatagram> buffer;
    for (int i = 0; i < kAtOnce && on_datagram; ++i) {
      udp::endpoint from;
      boost::system::error_code error;
      const size_t size = socket.receive_from(asio::buffer(buffer), from, 0, error);
      if (error == asio::error::would_block) break;
      if (error) continue;  // that an earlier datagram was refused, say
      on_datagram(FromEndpoint(from), {buffer.begin(), buffer.begin() + size});
    }
  }

  const std::shared_ptr<LoopContext> context;
  udp::socket socket;
  int descriptor = -1;  // of the socket, for sending from other threads
  bool is_v4 = true;
  OnDatagram on_datagram;
};

Result<DatagramAddress> ToDatagramAddress(const std::string& ip, uint16_t port) {
  boost::system::error_code error;
  const auto address = asio::ip::make_address(ip, error);
  if (error) return Error(ErrorCode::kInvalidArgument, "'" + ip + "' is not an IP address.");
  return FromEndpoint({address, port});
}

Result<std::shared_ptr<UdpSocket>> UdpSocket::Open(EventLoop& loop, const std::string& address,
                                                   uint16_t port) {
  boost::system::error_code error;
  const auto ip = asio::ip::make_address(address, error);
  if (error) return Error(ErrorCode::kInvalidArgument, "'" + address + "' is not an IP address.");
  auto state = std::make_shared<State>(loop.context());
  udp::socket& socket = state->socket;
  state->is_v4 = ip.is_v4();
  const auto attempt = [&error](auto&& step) {
    if (!error) step();
  };
  attempt([&] { socket.open(ip.is_v4() ? udp::v4() : udp::v6(), error); });
  // Bound to all addresses it is for IPv4, too.
  if (ip.is_v6() && ip.is_unspecified())
    attempt([&] { socket.set_option(asio::ip::v6_only(false), error); });
  attempt([&] { socket.bind({ip, port}, error); });
  attempt([&] { socket.non_blocking(true, error); });
  if (error)
    return Error(ErrorCode::kUnavailable, "UDP port " + std::to_string(port) + " of " + address +
                                              " cannot be had: " + error.message() + ".");
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::receive_buffer_size(kBufferBytes), ignored);
  socket.set_option(asio::socket_base::send_buffer_size(kBufferBytes), ignored);
  state->descriptor = socket.native_handle();
  const udp::endpoint bound = socket.local_endpoint(ignored);
  std::vector<std::string> reachable = {address};
  if (ip.is_unspecified()) {
    reachable = LanAddresses(ip.is_v6());
    reachable.emplace_back("127.0.0.1");
    if (ip.is_v6()) reachable.emplace_back("::1");
  }
  std::vector<DatagramAddress> addresses;
  for (const std::string& each : reachable)
    if (auto parsed = ToDatagramAddress(each, bound.port()); parsed.ok())
      addresses.push_back(*parsed);
  return std::shared_ptr<UdpSocket>(new UdpSocket(std::move(state), std::move(addresses)));
}

UdpSocket::~UdpSocket() {
  Stop();
}

void UdpSocket::Receive(OnDatagram on_datagram) {
  state_->on_datagram = std::move(on_datagram);
  state_->Wait();
}

void UdpSocket::Stop() {
  state_->on_datagram = nullptr;
  boost::system::error_code ignored;
  state_->socket.cancel(ignored);
}

// The system's call, not Asio's: a socket of Asio is not for several threads at once, and the
// thread that computes does not wait for the loop.
void UdpSocket::Send(std::span<const OutgoingDatagram> datagrams) {
  std::vector<sockaddr_storage> addresses(datagrams.size());
  std::vector<iovec> pieces(datagrams.size());
  std::vector<mmsghdr> messages;
  for (size_t i = 0; i < datagrams.size(); ++i) {
    const auto& [to, bytes] = datagrams[i];
    if (state_->is_v4 && !IsIPv4(to)) continue;
    const socklen_t address_bytes = Fill(to, state_->is_v4, addresses[i]);
    pieces[i] = {const_cast<uint8_t*>(bytes.data()), bytes.size()};
    mmsghdr& message = messages.emplace_back();
    message.msg_hdr.msg_name = &addresses[i];
    message.msg_hdr.msg_namelen = address_bytes;
    message.msg_hdr.msg_iov = &pieces[i];
    message.msg_hdr.msg_iovlen = 1;
  }
  // One that the system refuses ends a call: the others are sent by the next.
  for (size_t sent = 0; sent < messages.size();) {
    const int taken =
        ::sendmmsg(state_->descriptor, &messages[sent],
                   static_cast<unsigned>(messages.size() - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
    sent += static_cast<size_t>(std::max(1, taken));
  }
}

void UdpSocket::AfterReceived(std::function<void()> then) {
  asio::post(state_->socket.get_executor(), [state = state_, then = std::move(then)] {
    if (state->on_datagram) state->Read();
    then();
  });
}

uint16_t UdpSocket::port() const {
  boost::system::error_code ignored;
  return state_->socket.local_endpoint(ignored).port();
}

}  // namespace weft::net
