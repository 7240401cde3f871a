#include "server/own_user.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/descriptor.h"
#include "net/peer_process.h"

namespace weft::server {
namespace {

net::SocketEnd EndOf(const sockaddr_in& address) {
  net::SocketEnd end;
  end.address[10] = end.address[11] = 0xff;  // ::ffff:a.b.c.d
  const void* const bytes = &address.sin_addr;
  std::copy_n(static_cast<const uint8_t*>(bytes), 4, end.address.begin() + 12);
  end.port = ntohs(address.sin_port);
  return end;
}

}  // namespace

std::optional<uint32_t> OwnUserIfKnown() {
  const Descriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const Descriptor client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in own = {};
  own.sin_family = AF_INET;
  own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  sockaddr_in peer = {};
  void* const own_address = &own;
  void* const peer_address = &peer;
  socklen_t own_bytes = sizeof(own);
  socklen_t peer_bytes = sizeof(peer);
  if (bind(listener.get(), static_cast<const sockaddr*>(own_address), own_bytes) != 0 ||
      listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), static_cast<sockaddr*>(own_address), &own_bytes) != 0 ||
      connect(client.get(), static_cast<const sockaddr*>(own_address), own_bytes) != 0 ||
      getsockname(client.get(), static_cast<sockaddr*>(peer_address), &peer_bytes) != 0) {
    return std::nullopt;
  }
  const std::optional<uint32_t> user = net::PeerUser(EndOf(peer), EndOf(own));
  return user == geteuid() ? user : std::nullopt;
}

}  // namespace weft::server
