#include "hub/proxies.h"

#include <algorithm>

namespace weft::hub {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return lower;
}

struct Variable {
  std::string name;
  std::string value;
};

// The first that is set: the name in lower case, then in upper case.
Variable Find(const Environment& environment, const std::string& name) {
  std::string upper = name;
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  for (const std::string& spelling : {name, upper}) {
    const char* value = environment(spelling.c_str());
    if (value != nullptr && *value != '\0') return {spelling, value};
  }
  return {name, ""};
}

std::string Base64(std::string_view text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < text.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j) {
      const auto byte = i + j < text.size() ? static_cast<uint8_t>(text[i + j]) : uint8_t{0};
      bits = bits << 8 | byte;
    }
    for (size_t j = 0; j < 4; ++j) {
      out += i + j <= text.size() ? kDigits[bits >> (18 - 6 * j) & 63] : '=';
    }
  }
  return out;
}

// "%40" -> "@".
std::string Decoded(std::string_view text) {
  const auto digit = [](char c) {
    const std::string_view digits = "0123456789abcdef";
    return digits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c + 32) : c);
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_coded = text[i] == '%' && i + 2 < text.size() &&
                          digit(text[i + 1]) != std::string_view::npos &&
                          digit(text[i + 2]) != std::string_view::npos;
    out += is_coded ? static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2])) : text[i];
    if (is_coded) i += 2;
  }
  return out;
}

// The value is not repeated: it may hold a password.
Result<std::optional<net::HttpProxy>> Parse(const Variable& variable) {
  if (variable.value.empty()) return std::optional<net::HttpProxy>();
  std::string_view text = variable.value;
  const auto refuse = [&](const std::string& why) {
    return Error(ErrorCode::kInvalidArgument,
                 "The variable " + variable.name + " names a proxy that weft cannot use: " + why +
                     ". Expected http://host:port or http://name:password@host:port.");
  };
  if (const size_t scheme = text.find("://"); scheme != std::string_view::npos) {
    const std::string name = Lower(text.substr(0, scheme));
    if (name != "http") return refuse("its kind is '" + name + "'");
    text.remove_prefix(scheme + 3);
  }
  net::HttpProxy proxy;
  if (const size_t at = text.rfind('@'); at != std::string_view::npos) {
    proxy.authorization = "Basic " + Base64(Decoded(text.substr(0, at)));
    text.remove_prefix(at + 1);
  }
  const auto url = net::ParseUrl("http://" + std::string(text));
  if (!url.ok()) return refuse("it is no address");
  proxy.host = url->host;
  proxy.port = url->port;
  return std::optional<net::HttpProxy>(std::move(proxy));
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
  const std::string exceptions = Lower(Find(environment, "no_proxy").value);
  for (size_t begin = 0; begin < exceptions.size();) {
    const size_t end = std::min(exceptions.size(), exceptions.find_first_of(", ", begin));
    std::string_view one = std::string_view(exceptions).substr(begin, end - begin);
    while (one.starts_with('.')) one.remove_prefix(1);  // ".example.org" means the same
    if (!one.empty()) proxies.exceptions_.emplace_back(one);
    begin = end + 1;
  }
  return proxies;
}

std::optional<net::HttpProxy> Proxies::For(const net::Url& server) const {
  if (IsExcepted(server)) return std::nullopt;
  return server.tls ? https_ : http_;
}

bool Proxies::IsExcepted(const net::Url& server) const {
  const std::string host = Lower(server.host);
  const std::string with_port = host + ":" + std::to_string(server.port);
  const auto is_below = [](const std::string& name, const std::string& domain) {
    return name == domain || name.ends_with("." + domain);
  };
  return std::any_of(exceptions_.begin(), exceptions_.end(), [&](const std::string& exception) {
    return exception == "*" || is_below(host, exception) || is_below(with_port, exception);
  });
}

}  // namespace weft::hub
