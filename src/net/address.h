// Network addresses: those of this machine, and URLs that people type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::net {

// IPv4 addresses of this machine's interfaces that are up, private networks first, loopback left
// out.
std::vector<std::string> LanAddresses();

bool IsLoopbackAddress(std::string_view address);

struct Url {
  bool tls = false;
  std::string host;
  uint16_t port = 0;
  std::string path;      // "/worker", at least "/"
  std::string fragment;  // after '#': carries a join token
  // "host:port", with brackets around IPv6.
  std::string Authority() const;
};

// "ws://host:port/path", "https://host", "host:port": the scheme's default port when none is given.
// kInvalidArgument names the text and what was expected.
Result<Url> ParseUrl(std::string_view text);

}  // namespace weft::net
