// The proxies that the environment names: https_proxy, http_proxy, all_proxy, no_proxy, in lower or
// upper case, with the meaning that curl and Python give them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/client.h"

namespace weft::hub {

// A variable of the environment; nullptr when it is not set.
using Environment = std::function<const char*(const char*)>;

class Proxies {
 public:
  // Errors: kInvalidArgument names a variable that holds no http address.
  static Result<Proxies> Read(const Environment& environment);

  // The one to use for a server; nullopt: none.
  std::optional<net::HttpProxy> For(const net::Url& server) const;

 private:
  bool IsExcepted(const net::Url& server) const;

  std::optional<net::HttpProxy> http_, https_;
  // Hosts without a proxy, lower case: "example.org" is that and all below it, "*" all hosts.
  std::vector<std::string> exceptions_;
};

}  // namespace weft::hub
