#include "registry/proxies.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>

#include "net/http_fields.h"
#include "net/web_names.h"

namespace weft::registry {
namespace {

struct Variable {
  std::string name;
  std::string value;
};

// The first that is set, also to nothing: the name in lower case, then in upper case. A program
// that a web server started with CGI has HTTP_PROXY from a header of its client (CVE-2016-5385).
Variable Find(const Environment& environment, const std::string& name) {
  std::string upper = name;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  for (const std::string& spelling : {name, upper}) {
    const bool is_of_client = spelling == "HTTP_PROXY" && environment("REQUEST_METHOD") != nullptr;
    const char* value = is_of_client ? nullptr : environment(spelling.c_str());
    if (value != nullptr) return {spelling, std::string(net::Trimmed(value))};
  }
  return {name, ""};
}

// Whether the first bits of two canonical addresses of one kind are equal.
bool IsInNetwork(const std::string& address, const std::string& network, unsigned prefix_bits) {
  const auto bytes_of = [](const std::string& text) {
    std::array<uint8_t, sizeof(in6_addr)> bytes = {};
    const int family = text.find(':') == std::string::npos ? AF_INET : AF_INET6;
    return inet_pton(family, text.c_str(), bytes.data()) == 1 ? std::optional(bytes) : std::nullopt;
  };
  const auto a = bytes_of(address), b = bytes_of(network);
  const bool is_v6 = address.find(':') != std::string::npos;
  if (!a || !b || is_v6 != (network.find(':') != std::string::npos)) return false;
  for (unsigned bit = 0; bit < prefix_bits; ++bit) {
    const unsigned mask = 0x80u >> bit % 8;
    if (((a->at(bit / 8) ^ b->at(bit / 8)) & mask) != 0) return false;
  }
  return true;
}

std::string PartOf(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, curl_free);
  return text;
}

// The value is not repeated: it may hold a password.
Result<HttpProxy> Parse(const Variable& variable) {
  HttpProxy proxy{variable.name, "", ""};
  if (variable.value.empty()) return proxy;
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument,
                 "The variable " + variable.name + " names a proxy that weft cannot use: " + why +
                     ". Expected http://host:port or http://name:password@host:port.");
  };
  const bool has_scheme = variable.value.find("://") != std::string::npos;
  const std::string text = has_scheme ? variable.value : "http://" + variable.value;
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, text.c_str(), CURLU_NON_SUPPORT_SCHEME) != CURLUE_OK) {
    return refuse("it is no address");
  }
  const std::string scheme = PartOf(url.get(), CURLUPART_SCHEME);
  if (scheme != "http") return refuse("its kind is '" + scheme + "'");
  // libcurl would take 1080, the port of SOCKS.
  if (PartOf(url.get(), CURLUPART_PORT).empty()) curl_url_set(url.get(), CURLUPART_PORT, "80", 0);
  proxy.address = PartOf(url.get(), CURLUPART_URL);
  proxy.authority = PartOf(url.get(), CURLUPART_HOST) + ":" + PartOf(url.get(), CURLUPART_PORT);
  return proxy;
}

}  // namespace

Result<Proxies> Proxies::Read(const Environment& environment) {
  Proxies proxies;
  const Variable all = Find(environment, "all_proxy");
  const auto named = [&](const char* name) {
    const Variable variable = Find(environment, name);
    return Parse(variable.value.empty() ? all : variable);
  };
  ASSIGN_OR_RETURN(proxies.http_, named("http_proxy"));
  ASSIGN_OR_RETURN(proxies.https_, named("https_proxy"));
  const std::string exceptions = Find(environment, "no_proxy").value;
  constexpr std::string_view kBetween = ", \t\r\n;";
  for (size_t begin = 0; begin < exceptions.size();) {
    const size_t end = std::min(exceptions.size(), exceptions.find_first_of(kBetween, begin));
    const auto one = ParseException(std::string_view(exceptions).substr(begin, end - begin));
    if (one) proxies.exceptions_.push_back(*one);
    begin = end + 1;
  }
  return proxies;
}

// nullopt for what names nobody.
std::optional<Proxies::Exception> Proxies::ParseException(std::string_view text) {
  Exception exception;
  if (text == "*") {
    exception.host = "*";
    return exception;
  }
  if (text.starts_with("*.")) text.remove_prefix(1);
  while (text.starts_with('.')) text.remove_prefix(1);  // ".example.org" means the same
  const size_t slash = text.find('/');
  const std::string_view bare = text.substr(0, slash);
  std::string address = net::CanonicalAddress(
      bare.starts_with('[') && bare.ends_with(']') ? bare.substr(1, bare.size() - 2) : bare);
  if (!address.empty()) {
    const unsigned all = address.find(':') == std::string::npos ? 32 : 128;
    exception.host = std::move(address);
    exception.is_address = true;
    exception.prefix_bits = all;
    if (slash == std::string_view::npos) return exception;
    const std::string_view digits = text.substr(slash + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exception.prefix_bits);
    const bool is_length = error == std::errc() && end == digits.data() + digits.size();
    return is_length && exception.prefix_bits <= all ? std::optional(exception) : std::nullopt;
  }
  const auto authority = net::CanonicalAuthority(text);
  if (!authority) return std::nullopt;
  exception.host = *authority;
  const size_t colon = exception.host.rfind(':');
  if (colon == std::string::npos || exception.host.ends_with(']')) return exception;
  const char* const end = exception.host.data() + exception.host.size();
  std::from_chars(exception.host.data() + colon + 1, end, exception.port);  // it is canonical
  exception.host.resize(colon);
  const bool is_v6 = exception.host.starts_with('[');
  if (is_v6) exception.host = exception.host.substr(1, exception.host.size() - 2);
  exception.is_address = !net::CanonicalAddress(exception.host).empty();
  exception.prefix_bits = is_v6 ? 128 : 32;
  return exception;
}

HttpProxy Proxies::For(const net::Url& server) const {
  if (IsExcepted(server)) return {};
  return server.tls ? https_ : http_;
}

bool Proxies::IsExcepted(const net::Url& server) const {
  const std::string address = net::CanonicalAddress(server.host);
  const std::string name =
      address.empty() ? net::CanonicalAuthority(server.host).value_or("") : address;
  return std::any_of(exceptions_.begin(), exceptions_.end(), [&](const Exception& exception) {
    if (exception.host == "*") return true;
    if (exception.port != 0 && exception.port != server.port) return false;
    if (exception.is_address) return IsInNetwork(address, exception.host, exception.prefix_bits);
    return name == exception.host || (address.empty() && name.ends_with("." + exception.host));
  });
}

}  // namespace weft::registry
