#include "net/udp_socket.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <ctime>
#include <memory>
#include <optional>

#include "net/address.h"
#include "net/loop_context.h"

namespace weft::net {
namespace {

namespace asio = boost::asio;
using asio::ip::udp;

// Of a receiving socket: eight devices that send a row of 8,192 columns each fill 300 KB of it, and
// whoever reads may be busy with a layer meanwhile. The system may give less.
constexpr int kBufferBytes = 4 << 20;
// Datagrams of one length that came together are read as one long one (UDP receive offload).
constexpr size_t kLongestRead = 64 << 10;
// Datagrams that are read before other work of the loop has its turn.
constexpr int kAtOnce = 256;
// Of a call of the system.
constexpr unsigned kOfACall = 8;
// Datagrams of one length to one address go to the system as one long one, which it cuts (UDP
// segmentation offload). It takes so many of them, and less than 64 KiB.
constexpr size_t kMostSegments = 64, kMostSegmentBytes = 60'000;
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

// Where the system says when a datagram came, and how long the datagrams of a long one were.
struct WhatCame {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(timespec)) + CMSG_SPACE(sizeof(int))];
};
constexpr int64_t kLongestWaitUs = 1'000'000;

int64_t Nanoseconds(const timespec& time) {
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}
int64_t NanosecondsOf(clockid_t clock) {
  timespec time{};
  (void)::clock_gettime(clock, &time);
  return Nanoseconds(time);
}

// What the system says about what came in a message of `level` and `type`.
template <typename T>
std::optional<T> Told(msghdr& message, int level, int type) {
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != level || each->cmsg_type != type) continue;
    T value{};
    std::memcpy(&value, CMSG_DATA(each), sizeof(value));
    return value;
  }
  return std::nullopt;
}

// How long the datagrams are that a long one is cut into.
struct SegmentLength {
  alignas(cmsghdr) char bytes[CMSG_SPACE(sizeof(uint16_t))];
};

void CutInto(uint16_t length, SegmentLength& control, msghdr& message) {
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof(control.bytes);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_UDP;
  header->cmsg_type = UDP_SEGMENT;
  header->cmsg_len = CMSG_LEN(sizeof(length));
  std::memcpy(CMSG_DATA(header), &length, sizeof(length));
}

// How many of these begin with one address and length. The last may be shorter.
size_t SegmentsOf(std::span<const OutgoingDatagram> datagrams) {
  const auto& [to, first] = datagrams.front();
  size_t count = 1, bytes = first.size();
  while (count < std::min(datagrams.size(), kMostSegments)) {
    const OutgoingDatagram& next = datagrams[count];
    bytes += next.bytes.size();
    if (next.to != to || next.bytes.size() > first.size() || next.bytes.empty() ||
        bytes > kMostSegmentBytes)
      break;
    ++count;
    if (next.bytes.size() < first.size()) break;
  }
  return count;
}

DatagramAddress FromSystem(const sockaddr_storage& from) {
  DatagramAddress address;
  if (from.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &from, sizeof(v4));
    std::ranges::copy(kMappedIPv4, address.ip.begin());
    std::memcpy(address.ip.data() + kMappedIPv4.size(), &v4.sin_addr, sizeof(v4.sin_addr));
    address.port = ntohs(v4.sin_port);
  } else {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &from, sizeof(v6));
    std::memcpy(address.ip.data(), &v6.sin6_addr, address.ip.size());
    address.port = ntohs(v6.sin6_port);
  }
  return address;
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

// The loop waits for `ready`, an epoll of the system that holds the socket alone. So the socket can
// be taken out of the loop's sight, and back, by any thread.
struct UdpSocket::State : std::enable_shared_from_this<State> {
  explicit State(std::shared_ptr<LoopContext> made_on)
      : context(std::move(made_on)), socket(*context), ready(*context) {}

  // REQUIRES: the socket is open.
  void Watch(boost::system::error_code& error) {
    descriptor = socket.native_handle();
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    if (epoll < 0) error.assign(errno, boost::system::system_category());
    if (epoll >= 0) ready.assign(epoll, error);
    epoll_event event{};
    event.events = EPOLLIN;
    if (!error && ::epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) != 0)
      error.assign(errno, boost::system::system_category());
  }
  void SetPolled(bool is_polled) {
    epoll_event event{};
    event.events = is_polled ? 0u : static_cast<uint32_t>(EPOLLIN);
    (void)::epoll_ctl(ready.native_handle(), EPOLL_CTL_MOD, descriptor, &event);
  }
  void Wait() {
    ready.async_wait(asio::posix::stream_descriptor::wait_read,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (error || !self->on_datagram) return;
                       self->Read();
                       if (self->on_datagram) self->Wait();
                     });
  }
  void Read() {
    for (int left = kAtOnce; left > 0 && on_datagram;) {
      const int came = Take([this](ReceivedDatagram datagram) {
        if (on_datagram) on_datagram(std::move(datagram));
      });
      if (came == 0) return;
      left -= came;
    }
  }
  // Several threads may, each gets others. Gives how many reads there were.
  int Take(const OnDatagram& take) const {
    // Pages that nothing long is read into are never touched.
    thread_local const auto buffers =
        std::make_unique_for_overwrite<uint8_t[]>(kOfACall * kLongestRead);
    std::array<sockaddr_storage, kOfACall> from;
    std::array<iovec, kOfACall> pieces;
    std::array<mmsghdr, kOfACall> messages{};
    std::array<WhatCame, kOfACall> told;
    for (unsigned i = 0; i < kOfACall; ++i) {
      pieces[i] = {buffers.get() + i * kLongestRead, kLongestRead};
      messages[i].msg_hdr.msg_control = told[i].bytes;
      messages[i].msg_hdr.msg_controllen = sizeof(told[i].bytes);
      messages[i].msg_hdr.msg_name = &from[i];
      messages[i].msg_hdr.msg_namelen = sizeof(from[i]);
      messages[i].msg_hdr.msg_iov = &pieces[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    const int came = ::recvmmsg(descriptor, messages.data(), kOfACall, MSG_DONTWAIT, nullptr);
    // An earlier datagram was refused, say; the next ones may be there.
    if (came < 0) return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : 1;
    const Instant now = MonotonicNow();
    const int64_t now_ns = NanosecondsOf(CLOCK_REALTIME);
    for (int i = 0; i < came; ++i) {
      msghdr& message = messages[i].msg_hdr;
      const auto stamp = Told<timespec>(message, SOL_SOCKET, SCM_TIMESTAMPNS);
      const int64_t ago_us = stamp ? (now_ns - Nanoseconds(*stamp)) / 1000 : 0;
      // A clock that was set meanwhile says nothing.
      const bool is_known = ago_us >= 0 && ago_us < kLongestWaitUs;
      const ByteSpan read(buffers.get() + static_cast<size_t>(i) * kLongestRead,
                          messages[i].msg_len);
      const int length = Told<int>(message, SOL_UDP, UDP_GRO).value_or(0);
      Cut(read, length > 0 ? static_cast<size_t>(length) : read.size(), FromSystem(from[i]),
          is_known ? now - Microseconds(ago_us) : now, take);
    }
    return came;
  }
  // An empty datagram is one, too.
  static void Cut(ByteSpan read, size_t length, const DatagramAddress& from, Instant came,
                  const OnDatagram& take) {
    do {
      const ByteSpan one = read.first(std::min(length, read.size()));
      read = read.subspan(one.size());
      take({from, {one.begin(), one.end()}, came});
    } while (!read.empty());
  }

  const std::shared_ptr<LoopContext> context;
  udp::socket socket;
  asio::posix::stream_descriptor ready;
  int descriptor = -1;  // of the socket, for other threads
  bool is_v4 = true;
  OnDatagram on_datagram;
  std::atomic<bool> takes_segments = true;  // until the system says that it does not
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
  const int wanted = 1;
  (void)::setsockopt(socket.native_handle(), SOL_SOCKET, SO_TIMESTAMPNS, &wanted, sizeof(wanted));
  (void)::setsockopt(socket.native_handle(), SOL_UDP, UDP_GRO, &wanted, sizeof(wanted));
  state->Watch(error);
  if (error)
    return Error(ErrorCode::kUnavailable,
                 "A UDP socket cannot be waited for: " + error.message() + ".");
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
  state_->ready.cancel(ignored);
}

// The system's call, not Asio's: a socket of Asio is not for several threads at once, and the
// thread that computes does not wait for the loop.
void UdpSocket::Send(std::span<const OutgoingDatagram> datagrams) {
  std::vector<sockaddr_storage> addresses(datagrams.size());
  std::vector<iovec> pieces(datagrams.size());
  std::vector<SegmentLength> lengths(datagrams.size());
  std::vector<mmsghdr> messages;
  std::vector<size_t> firsts;  // of the datagrams of a message
  const bool in_segments = state_->takes_segments;
  for (size_t i = 0, count = 1; i < datagrams.size(); i += count) {
    count = in_segments ? SegmentsOf(datagrams.subspan(i)) : 1;
    const auto& [to, bytes] = datagrams[i];
    if (state_->is_v4 && !IsIPv4(to)) continue;
    for (size_t at = i; at < i + count; ++at)
      pieces[at] = {const_cast<uint8_t*>(datagrams[at].bytes.data()), datagrams[at].bytes.size()};
    msghdr& message = messages.emplace_back().msg_hdr;
    firsts.push_back(i);
    message.msg_name = &addresses[i];
    message.msg_namelen = Fill(to, state_->is_v4, addresses[i]);
    message.msg_iov = &pieces[i];
    message.msg_iovlen = count;
    if (count > 1) CutInto(static_cast<uint16_t>(bytes.size()), lengths[i], message);
  }
  for (size_t sent = 0; sent < messages.size();) {
    const int taken =
        ::sendmmsg(state_->descriptor, &messages[sent],
                   static_cast<unsigned>(messages.size() - sent), MSG_DONTWAIT | MSG_NOSIGNAL);
    // A line whose packets are shorter, or a system that does not cut: one by one, then.
    const bool cannot_cut =
        taken < 0 && (errno == EINVAL || errno == EIO || errno == EMSGSIZE || errno == EOPNOTSUPP);
    if (cannot_cut && messages[sent].msg_hdr.msg_iovlen > 1) {
      state_->takes_segments = false;
      return Send(datagrams.subspan(firsts[sent]));
    }
    // One that the system refuses ends a call: the others are sent by the next.
    sent += static_cast<size_t>(std::max(1, taken));
  }
}

void UdpSocket::AfterReceived(std::function<void()> then) {
  asio::post(state_->socket.get_executor(), [state = state_, then = std::move(then)] {
    if (state->on_datagram) state->Read();
    then();
  });
}

void UdpSocket::TakeReceived(const OnDatagram& take) {
  while (state_->Take(take) == static_cast<int>(kOfACall)) {
  }
}

void UdpSocket::SetPolled(bool is_polled) {
  state_->SetPolled(is_polled);
}

uint16_t UdpSocket::port() const {
  boost::system::error_code ignored;
  return state_->socket.local_endpoint(ignored).port();
}

}  // namespace weft::net
