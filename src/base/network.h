// These say whom an address stands for, where clients are counted.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace weft {

// An address of IPv6, or one of IPv4 as ::ffff:a.b.c.d, in network order.
using IpAddress = std::array<uint8_t, 16>;
// Reads an address, or gives nullopt where the text is none.
std::optional<IpAddress> ParseIp(const std::string& text);

// Tells whether the address is this machine's own: 127.0.0.0/8 or ::1.
bool IsLoopback(const IpAddress& ip);
// Tells whether the address is one of a network at home or at work, which the internet does not
// reach: RFC 1918, 6598, 3927, 4193 or fe80::/10.
bool IsPrivate(const IpAddress& ip);
// Tells whether the address is somebody's at all: not 0.0.0.0, ::, a multicast group or
// 255.255.255.255.
bool IsOneHost(const IpAddress& ip);
// Tells whether the addresses are equal, or IPv6 ones with equal first 64 bits.
bool IsSameNetwork(const IpAddress& one, const IpAddress& other);

// Gives what limits by address count: the address itself, or the first 64 bits of an IPv6 address.
// One household or one machine is given so many. Each loopback address is one for itself, and an
// IPv4 address in IPv6's form is that IPv4 address. Other text stays what it is.
std::string NetworkOf(const std::string& address);

}  // namespace weft
