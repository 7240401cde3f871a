// The proxies that the environment names: https_proxy, http_proxy, all_proxy, no_proxy, in lower or
// upper case, with the meaning that curl and Python give them. A name in lower case that is set to
// nothing takes away what the upper case says. no_proxy lists names, "*.example.org", addresses,
// networks (10.0.0.0/8) and host:port, with commas or spaces between them. libcurl speaks with the
// proxy, but its own no_proxy knows no ports and, in Debian 12, no networks of IPv6.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "base/result.h"
#include "net/address.h"

namespace weft::registry {

struct HttpProxy {
  std::string variable;   // "https_proxy", which named it
  std::string address;    // "http://name:password@host:port"; "" for no proxy
  std::string authority;  // "host:port", without secrets
};

class Proxies {
 public:
  // Errors: kInvalidArgument names a variable that holds no http address.
  static Result<Proxies> Read(const Environment& environment);

  // The one to use for a server; its address is "" where none is.
  HttpProxy For(const net::Url& server) const;

 private:
  bool IsExcepted(const net::Url& server) const;

  HttpProxy http_, https_;
  struct Exception {
    std::string host;  // canonical: "example.org" is that and all below it; "*" all hosts
    uint16_t port = 0;
    bool is_address = false;
    unsigned prefix_bits = 0;  // of an address: how many of its first bits count
  };
  static std::optional<Exception> ParseException(std::string_view text);
  std::vector<Exception> exceptions_;
};

}  // namespace weft::registry
