// Network addresses: those of this machine, and URLs that people type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::net {

// Addresses of this machine's interfaces that are up, as others can name them: IPv4 first, private
// networks before public ones, then IPv6 when `with_v6`. Loopback and link-local addresses are left
// out: the latter mean nothing without the name of an interface on the other machine.
std::vector<std::string> LanAddresses(bool with_v6 = false);

// "192.168.1.7" or "fe80::1", without a port.
bool IsIpAddress(const std::string& text);

bool IsLoopbackAddress(std::string_view address);

// "host" or "[2001:db8::1]": as it stands in a URL and in a Host header, without a port.
std::string HostInUrl(std::string_view host);

struct Url {
  bool tls = false;
  std::string host;
  uint16_t port = 0;
  std::string path;      // "/worker", at least "/"
  std::string fragment;  // after '#': carries a join token
  std::string query;     // after '?', still encoded
  // "host:port", with brackets around IPv6.
  std::string Authority() const;
  // What a request names: the path, with the query if there is one.
  std::string Target() const;
};

// "ws://host:port/path", "https://host", "host:port": the scheme's default port when none is given.
// kInvalidArgument names the text and what was expected.
Result<Url> ParseUrl(std::string_view text);

// `text` with everything but letters, digits and -._~ as %XX, for one part of a path.
std::string PercentEncoded(std::string_view text);

}  // namespace weft::net
