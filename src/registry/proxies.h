// The proxies that the environment names: https_proxy, http_proxy, all_proxy, no_proxy, in lower or
// upper case, with the meaning that curl and Python give them. A name in lower case that is set to
// nothing takes away what the upper case says. no_proxy lists names, "*.example.org", addresses,
// networks (10.0.0.0/8) and host:port, with commas or spaces between them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/environment.h"
#include "net/client.h"

namespace weft::registry {

class Proxies {
 public:
  // Errors: kInvalidArgument names a variable that holds no http address.
  static Result<Proxies> Read(const Environment& environment);

  // The one to use for a server; nullopt: none.
  std::optional<net::HttpProxy> For(const net::Url& server) const;

 private:
  bool IsExcepted(const net::Url& server) const;

  std::optional<net::HttpProxy> http_, https_;
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
