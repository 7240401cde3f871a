// Names of servers and pages as HTTP and browsers write them, each in one spelling. So two may be
// compared: authorities (RFC 3986 6.2) and origins (RFC 6454).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace weft::net {

// "host" or "host:port" in lower case, with percent signs decoded, IPv6 as inet_ntop writes it, and
// without a dot at its end, zeros before the port or an empty port. nullopt for what is none: a
// user's name before it, a path behind it, no host.
std::optional<std::string> CanonicalAuthority(std::string_view text);

// `authority`, which is canonical, without the port that `scheme` has anyway.
std::string WithoutDefaultPort(const std::string& authority, std::string_view scheme);

// "scheme://host[:port]" in that spelling, without a default port. nullopt for what is no origin,
// "null" among it.
std::optional<std::string> CanonicalOrigin(std::string_view text);

// An origin or a name that somebody typed: kInvalidArgument says what was expected in its place.
// `option` is where it was typed.
Result<std::string> ParseOrigin(std::string_view option, std::string_view text);
Result<std::string> ParseHostName(std::string_view option, std::string_view text);

// An IP address as inet_ntop writes it, an IPv4 address in IPv6 as the IPv4 address; "" for others.
std::string CanonicalAddress(std::string_view text);

}  // namespace weft::net
