#include "net/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <boost/url/parse.hpp>
#include <boost/url/url_view.hpp>
#include <charconv>

#include "net/http_fields.h"

namespace weft::net {
namespace {

bool IsPrivate(const std::string& address) {
  return address.starts_with("192.168.") || address.starts_with("10.") ||
         (address.starts_with("172.") && address.size() > 6 && address[6] == '.' &&
          address.substr(4, 2) >= "16" && address.substr(4, 2) <= "31");
}

Error BadUrl(std::string_view text, const std::string& why) {
  return Error(ErrorCode::kInvalidArgument,
               "'" + std::string(text) + "' is not an address weft can use: " + why +
                   ". Expected something like http://127.0.0.1:8080 or wss://host:8443.");
}

}  // namespace

std::vector<std::string> LanAddresses(bool with_v6) {
  std::vector<std::string> addresses;
  std::vector<std::string> v6_addresses;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return addresses;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    if ((entry->ifa_flags & IFF_UP) == 0 || (entry->ifa_flags & IFF_LOOPBACK) != 0) continue;
    char text[INET6_ADDRSTRLEN] = {};
    const void* raw = entry->ifa_addr;
    if (entry->ifa_addr->sa_family == AF_INET) {
      const auto* address = static_cast<const sockaddr_in*>(raw);
      if (inet_ntop(AF_INET, &address->sin_addr, text, sizeof(text)) != nullptr) {
        addresses.emplace_back(text);
      }
    } else if (with_v6 && entry->ifa_addr->sa_family == AF_INET6) {
      const in6_addr& address = static_cast<const sockaddr_in6*>(raw)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(&address)) continue;
      if (inet_ntop(AF_INET6, &address, text, sizeof(text)) != nullptr) {
        v6_addresses.emplace_back(text);
      }
    }
  }
  freeifaddrs(list);
  std::stable_partition(addresses.begin(), addresses.end(), IsPrivate);
  addresses.insert(addresses.end(), v6_addresses.begin(), v6_addresses.end());
  return addresses;
}

bool IsIpAddress(const std::string& text) {
  uint8_t bytes[sizeof(in6_addr)];
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 ||
         inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

bool IsLoopbackAddress(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address.starts_with("::ffff:127.");
}

std::string HostInUrl(std::string_view host) {
  // One colon would be a port, which is the caller's mistake or a name given with its own.
  const bool is_v6 = std::count(host.begin(), host.end(), ':') > 1 && !host.starts_with('[');
  return is_v6 ? "[" + std::string(host) + "]" : std::string(host);
}

std::string Url::Authority() const {
  return HostInUrl(host) + ":" + std::to_string(port);
}

std::string Url::Target() const {
  return query.empty() ? path : path + "?" + query;
}

Result<Url> ParseUrl(std::string_view text) {
  std::string with_scheme(text);
  if (text.find("://") == std::string_view::npos) with_scheme = "http://" + with_scheme;
  const auto parsed = boost::urls::parse_uri(with_scheme);
  if (!parsed) return BadUrl(text, parsed.error().message());
  Url url;
  const std::string scheme = LowerCase(std::string_view(parsed->scheme()));
  if (scheme == "https" || scheme == "wss") {
    url.tls = true;
  } else if (scheme != "http" && scheme != "ws") {
    return BadUrl(text, "the scheme '" + scheme + "' is unknown");
  }
  url.host = std::string(parsed->host_address());
  if (url.host.empty()) return BadUrl(text, "it names no host");
  url.port = url.tls ? 443 : 80;
  if (parsed->has_port()) {
    const std::string digits(parsed->port());
    unsigned port = 0;  // 0 also when the number does not fit
    std::from_chars(digits.data(), digits.data() + digits.size(), port);
    if (port == 0 || port > 65535) return BadUrl(text, "the port must be 1 to 65535");
    url.port = static_cast<uint16_t>(port);
  }
  url.path = std::string(parsed->encoded_path());
  if (url.path.empty()) url.path = "/";
  url.fragment = parsed->fragment();
  url.query = std::string(parsed->encoded_query());
  return url;
}

std::string PercentEncoded(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || c == '~';
    if (plain) {
      encoded += c;
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

}  // namespace weft::net
