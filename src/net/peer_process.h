// The kernel tells which user's process holds the other end of a TCP connection within this
// machine. It is asked for that one socket. If it does not answer, its tables are read
// (/proc/net/tcp, /proc/net/tcp6). Linux only; no privilege is needed.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace weft::net {

// One end of a TCP connection, bytes as they travel. IPv4 stands v4-mapped (::ffff:127.0.0.1): a
// dual-stack socket and a plain one then compare alike.
struct SocketEnd {
  std::array<uint8_t, 16> address{};
  uint16_t port = 0;

  bool IsV4() const;
  bool IsLoopback() const;  // 127.0.0.0/8, ::1 and ::ffff:127.0.0.0/104
  bool operator==(const SocketEnd&) const = default;
};

// The user of the socket whose own end is `holder` and whose other end is `other`, in a table as
// /proc/net/tcp or tcp6 writes it. nullopt when no line is about that connection, or when the line
// names no user: sockets that no process holds any more are listed with the number 0, which would
// read as root.
std::optional<uint32_t> FindSocketUser(std::string_view table, const SocketEnd& holder,
                                       const SocketEnd& other);

// The user whose process holds the far end `peer` of a connection of this process; `own` is our
// end. nullopt for a peer that is not on loopback, one that has gone, a user whom our user
// namespace does not know, and wherever the tables cannot be read: nullopt means "a stranger".
// Where the tables have to be read the kernel walks all its sockets (milliseconds): ask once a
// connection. And ask while our end is open: until it closes no other process can get the peer's
// port.
std::optional<uint32_t> PeerUser(const SocketEnd& peer, const SocketEnd& own);

}  // namespace weft::net
