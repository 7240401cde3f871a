#include "server/access.h"

#include <openssl/crypto.h>

#include "base/sha256.h"

namespace weft::server {
namespace {

std::optional<std::string_view> BearerToken(const net::HttpRequest& request) {
  const std::string_view header = request.Header("authorization");
  constexpr std::string_view kScheme = "Bearer ";
  if (!header.starts_with(kScheme)) return std::nullopt;
  return header.substr(kScheme.size());
}

net::HttpResponse Refuse(int status, const std::string& why) {
  return net::TextResponse(status, "text/plain; charset=utf-8", why + "\n");
}

}  // namespace

std::string HashSecret(std::string_view secret) {
  return ToHex(Sha256(AsBytes(secret)));
}

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<net::HttpResponse> CheckHostAndOrigin(const AccessPolicy& policy,
                                                    const net::HttpRequest& request) {
  const std::string host(request.Header("host"));
  if (!policy.allowed_hosts.contains(host)) {
    return Refuse(421, "This server does not answer to the name '" + host.substr(0, 100) +
                           "'. Add it with --host-name if it is yours.");
  }
  const std::string origin(request.Header("origin"));
  if (origin.empty()) return std::nullopt;
  const std::string own = (request.over_tls ? "https://" : "http://") + host;
  if (origin == own || policy.allowed_origins.contains(origin)) return std::nullopt;
  return Refuse(403, "Pages of '" + origin.substr(0, 100) +
                         "' may not use this server. Allow them with --allow-origin.");
}

bool HasSecret(const AccessPolicy& policy, const net::HttpRequest& request,
               std::initializer_list<Secret> accepted) {
  const auto token = BearerToken(request);
  const std::string given = token ? HashSecret(*token) : std::string();
  for (const Secret kind : accepted) {
    const std::string& expected =
        kind == Secret::kApiKey ? policy.api_key_hash : policy.join_token_hash;
    if (expected.empty() || ConstantTimeEquals(given, expected)) return true;
  }
  return false;
}

net::Headers CorsHeaders(const AccessPolicy& policy, const net::HttpRequest& request) {
  const std::string origin(request.Header("origin"));
  if (origin.empty() || !policy.allowed_origins.contains(origin)) return {};
  return {{"Access-Control-Allow-Origin", origin},
          {"Vary", "Origin"},
          {"Access-Control-Allow-Headers", "Authorization, Content-Type"},
          {"Access-Control-Allow-Methods", "GET, POST, OPTIONS"}};
}

}  // namespace weft::server
