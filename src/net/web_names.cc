#include "net/web_names.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <boost/url/pct_string_view.hpp>
#include <charconv>
#include <cstring>

#include "net/http_fields.h"

namespace weft::net {
namespace {

bool IsHostCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("-._~!$&'()*+,;=").find(c) != std::string_view::npos;
}

// "" for what is no host.
std::string CanonicalHost(std::string_view text) {
  if (text.starts_with('[')) {
    if (!text.ends_with(']')) return {};
    const std::string address(text.substr(1, text.size() - 2));
    in6_addr bytes = {};
    char written[INET6_ADDRSTRLEN] = {};
    if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return {};
    if (inet_ntop(AF_INET6, &bytes, written, sizeof(written)) == nullptr) return {};
    return "[" + std::string(written) + "]";
  }
  const auto encoded = boost::urls::make_pct_string_view({text.data(), text.size()});
  if (!encoded) return {};
  std::string host = LowerCase(encoded->decode());
  if (host.size() > 1 && host.ends_with('.')) host.pop_back();
  return std::all_of(host.begin(), host.end(), IsHostCharacter) ? host : "";
}

Error NoOrigin(std::string_view option, std::string_view text, const std::string& why) {
  return Error(ErrorCode::kInvalidArgument,
               std::string(option) + " is '" + std::string(text) + "'" + why +
                   "; expected the origin of a page as a browser sends it, such as "
                   "https://app.example or http://localhost:3000.");
}

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 127; });
}

}  // namespace

std::optional<std::string> CanonicalAuthority(std::string_view text) {
  const size_t bracket = text.rfind(']');
  const size_t colon = text.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string host = CanonicalHost(text.substr(0, colon));
  if (host.empty()) return std::nullopt;
  if (colon == std::string_view::npos || colon + 1 == text.size()) return host;
  const std::string_view digits = text.substr(colon + 1);
  uint32_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port > 65535) {
    return std::nullopt;
  }
  return host + ":" + std::to_string(port);
}

std::string WithoutDefaultPort(const std::string& authority, std::string_view scheme) {
  const bool is_tls = scheme == "https" || scheme == "wss";
  const bool is_plain = scheme == "http" || scheme == "ws";
  const std::string_view port = is_tls ? ":443" : is_plain ? ":80" : "";
  // "[::80]" ends with its bracket, so that what ends with the port has one.
  if (port.empty() || !authority.ends_with(port)) return authority;
  return authority.substr(0, authority.size() - port.size());
}

std::optional<std::string> CanonicalOrigin(std::string_view text) {
  const size_t end = text.find("://");
  if (end == std::string_view::npos) return std::nullopt;
  const std::string scheme = LowerCase(text.substr(0, end));
  const bool is_scheme =
      !scheme.empty() && scheme[0] >= 'a' && scheme[0] <= 'z' &&
      std::all_of(scheme.begin(), scheme.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
      });
  const auto authority = CanonicalAuthority(text.substr(end + 3));
  if (!is_scheme || !authority) return std::nullopt;
  return scheme + "://" + WithoutDefaultPort(*authority, scheme);
}

Result<std::string> ParseOrigin(std::string_view option, std::string_view text) {
  const std::string_view given = Trimmed(text);
  if (given == "*") {
    return NoOrigin(option, text, ", which would let every page on the internet use this server");
  }
  if (given == "null") {
    return NoOrigin(option, text, ", which every file and every sandboxed frame may send");
  }
  if (!IsAscii(given)) {
    return NoOrigin(option, text, ", but browsers send names of other letters as xn--...");
  }
  // A slash at the end is how people copy it out of an address bar; a path is another thing.
  const bool has_slash = given.ends_with('/') && !given.ends_with("://");
  const auto origin = CanonicalOrigin(has_slash ? given.substr(0, given.size() - 1) : given);
  if (!origin) {
    const bool has_scheme = given.find("://") != std::string_view::npos;
    return NoOrigin(option, text,
                    has_scheme ? ", which is more or less than scheme, host and port"
                               : ", which has no scheme");
  }
  return *origin;
}

Result<std::string> ParseHostName(std::string_view option, std::string_view text) {
  const std::string_view given = Trimmed(text);
  // "::1" is an address without the brackets that it has in a Host header.
  const bool is_bare_v6 = std::count(given.begin(), given.end(), ':') > 1 && given[0] != '[';
  const auto authority =
      IsAscii(given)
          ? CanonicalAuthority(is_bare_v6 ? "[" + std::string(given) + "]" : std::string(given))
          : std::nullopt;
  if (!authority) {
    return Error(ErrorCode::kInvalidArgument,
                 std::string(option) + " is '" + std::string(text) +
                     "'; expected a name as it stands in a Host header, such as chat.example or "
                     "chat.example:8443, names of other letters as xn--...");
  }
  return *authority;
}

std::string CanonicalAddress(std::string_view text) {
  const std::string given(text);
  char written[INET6_ADDRSTRLEN] = {};
  in_addr v4 = {};
  in6_addr v6 = {};
  if (inet_pton(AF_INET, given.c_str(), &v4) == 1) {
    return inet_ntop(AF_INET, &v4, written, sizeof(written)) != nullptr ? written : "";
  }
  if (inet_pton(AF_INET6, given.c_str(), &v6) != 1) return {};
  constexpr size_t kMappedBytes = 12;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) {
    std::memcpy(&v4, v6.s6_addr + kMappedBytes, sizeof(v4));
    return inet_ntop(AF_INET, &v4, written, sizeof(written)) != nullptr ? written : "";
  }
  return inet_ntop(AF_INET6, &v6, written, sizeof(written)) != nullptr ? written : "";
}

}  // namespace weft::net
