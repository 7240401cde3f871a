// Whom an address stands for, where clients are counted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// An IPv6 address, or an IPv4 one as ::ffff:a.b.c.d, in network order.
using IpAddress = std::array<uint8_t, 16>;
// nullopt: the text is no IP address.
std::optional<IpAddress> ParseIp(const std::string& text);

// Of this machine itself: 127.0.0.0/8 and ::1.
bool IsLoopback(const IpAddress& ip);
// Of a network at home or at work, which the internet does not reach: RFC 1918, 6598, 3927, 4193
// and fe80::/10.
bool IsPrivate(const IpAddress& ip);
// One that is somebody's at all: not 0.0.0.0, ::, a multicast group or 255.255.255.255.
bool IsOneHost(const IpAddress& ip);
// The same address, or the same first 64 bits of IPv6 ones.
bool IsSameNetwork(const IpAddress& one, const IpAddress& other);

// Limits by address count this: the address itself, or the first 64 bits of an IPv6 address. One
// household or one machine is given so many. Each loopback address is one for itself, and an IPv4
// address in IPv6's form is that IPv4 address. Other text stays what it is.
std::string NetworkOf(const std::string& address);

}  // namespace weft
