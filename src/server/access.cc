#include "server/access.h"

#include <openssl/crypto.h>

#include <algorithm>

#include "base/network.h"
#include "base/sha256.h"
#include "net/address.h"

namespace weft::server {
namespace {

constexpr uint32_t kRoot = 0;
constexpr size_t kMaxAskedHeaders = 1024;  // bytes of Access-Control-Request-Headers

bool EqualsIgnoringCase(std::string_view a, std::string_view lower_case) {
  return a.size() == lower_case.size() &&
         std::equal(a.begin(), a.end(), lower_case.begin(), [](char x, char y) {
           return (x >= 'A' && x <= 'Z' ? static_cast<char>(x - 'A' + 'a') : x) == y;
         });
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

api::ApiError Refusal(int status, std::string message, std::string code) {
  return {status, std::move(message), "invalid_request_error", "", std::move(code)};
}

bool IsAllowedOrigin(const AccessPolicy& policy, const net::HttpRequest& request,
                     const std::string& origin) {
  const std::string own =
      (request.over_tls ? "https://" : "http://") + std::string(request.Header("host"));
  return origin == own || policy.allowed_origins.contains(origin);
}

// A browser says where a request comes from also where it sends no Origin: pictures, scripts and
// frames of other pages, and links.
bool IsFromOtherSite(const net::HttpRequest& request) {
  const std::string_view site = request.Header("sec-fetch-site");
  return request.Header("origin").empty() && !site.empty() && site != "same-origin" &&
         site != "none";
}

// Somebody follows a link in the address bar of a tab.
bool IsNavigation(const net::HttpRequest& request) {
  return request.method == "GET" && request.Header("sec-fetch-mode") == "navigate" &&
         request.Header("sec-fetch-dest") == "document";
}

api::ApiError OtherSite() {
  return Refusal(403, "Pages of other sites may not load anything of this server.",
                 "unknown_origin");
}

// Whether the request carries the secret, or one of the earlier ones.
bool Carries(const AccessPolicy& policy, const net::HttpRequest& request,
             const std::string& expected_hash, const std::vector<std::string>& earlier_hashes) {
  const auto token = BearerToken(request);
  if (!token) return false;
  const std::string hash = HashSecret(*token);
  bool matches = ConstantTimeEquals(hash, expected_hash);
  for (const std::string& earlier : earlier_hashes)
    matches = ConstantTimeEquals(hash, earlier) || matches;
  if (matches && policy.on_use) policy.on_use(hash);
  return matches;
}

bool CarriesApiKey(const AccessPolicy& policy, const net::HttpRequest& request) {
  return Carries(policy, request, policy.api_key_hash, policy.earlier_api_key_hashes);
}

// Where no secret is demanded.
std::optional<api::ApiError> CheckUser(const AccessPolicy& policy,
                                       const net::HttpRequest& request) {
  if (!policy.only_user) return std::nullopt;
  const std::optional<uint32_t> user = request.peer_user();
  if (user && (*user == *policy.only_user || *user == kRoot)) return std::nullopt;
  return Refusal(403,
                 "Without an API key this server answers programs of its own user only. Start it "
                 "with WEFT_API_KEY set, and send that key as 'Authorization: Bearer <key>'.",
                 "permission_denied");
}

}  // namespace

std::string ClientOf(const AccessPolicy& policy, const net::HttpRequest& request) {
  const std::string network = NetworkOf(request.remote_address);
  const auto key = BearerToken(request);
  return policy.api_key_hash.empty() || !key ? network : network + " " + HashSecret(*key);
}

std::optional<std::string_view> BearerToken(const net::HttpRequest& request) {
  const std::string_view header = request.Header("authorization");
  const size_t space = header.find(' ');
  if (space == std::string_view::npos || !EqualsIgnoringCase(header.substr(0, space), "bearer")) {
    return std::nullopt;
  }
  return Trimmed(header.substr(space));
}

std::string HashSecret(std::string_view secret) {
  return ToHex(Sha256(AsBytes(secret)));
}

bool ConstantTimeEquals(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::optional<api::ApiError> CheckHostAndOrigin(const AccessPolicy& policy,
                                                const net::HttpRequest& request) {
  const std::string host(request.Header("host"));
  if (!policy.allowed_hosts.contains(host)) {
    return Refusal(421,
                   "This server does not answer to the name '" + host.substr(0, 100) +
                       "'. Add it with --host-name if it is yours.",
                   "unknown_host");
  }
  const std::string origin(request.Header("origin"));
  if (!origin.empty()) {
    if (IsAllowedOrigin(policy, request, origin)) return std::nullopt;
    return Refusal(403,
                   "Pages of '" + origin.substr(0, 100) +
                       "' may not use this server. Allow them with --allow-origin.",
                   "unknown_origin");
  }
  if (IsFromOtherSite(request) && !IsNavigation(request)) return OtherSite();
  return std::nullopt;
}

std::optional<api::ApiError> CheckSecret(const AccessPolicy& policy,
                                         const net::HttpRequest& request, Secret secret) {
  // A link may lead to the page, not to what a secret guards: downloads of a link start by
  // themselves.
  if (secret != Secret::kNone && IsFromOtherSite(request)) return OtherSite();
  switch (secret) {
    case Secret::kNone:
      return std::nullopt;
    case Secret::kApiKey:
      if (policy.api_key_hash.empty()) return CheckUser(policy, request);
      if (CarriesApiKey(policy, request)) return std::nullopt;
      return Refusal(401,
                     "This server wants its API key as 'Authorization: Bearer <key>'; 'weft serve' "
                     "printed it.",
                     "invalid_api_key");
    case Secret::kJoinToken:
    case Secret::kWorkerSocket:
      if (policy.join_token_hash.empty()) return CheckUser(policy, request);
      if (secret == Secret::kWorkerSocket && request.Header("authorization").empty()) {
        return std::nullopt;
      }
      if (Carries(policy, request, policy.join_token_hash, policy.earlier_join_token_hashes)) {
        return std::nullopt;
      }
      if (!policy.api_key_hash.empty() && CarriesApiKey(policy, request)) return std::nullopt;
      return Refusal(401,
                     "This swarm wants its join token as 'Authorization: Bearer <token>'; the join "
                     "link carries it.",
                     "invalid_join_token");
  }
  return Refusal(401, "This route is closed.", "");
}

net::Headers CorsHeaders(const AccessPolicy& policy, const net::HttpRequest& request,
                         const std::string& methods) {
  if (policy.allowed_origins.empty()) return {};
  // Also for those who get nothing: what a cache keeps for them is not for others.
  net::Headers headers = {{"Vary", "Origin"}};
  const std::string origin(request.Header("origin"));
  if (!policy.allowed_origins.contains(origin)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", origin);
  headers.emplace_back("Access-Control-Expose-Headers", "Retry-After");
  if (request.method != "OPTIONS") return headers;
  headers.emplace_back("Access-Control-Allow-Methods", methods);
  headers.emplace_back("Access-Control-Max-Age", "600");
  // OpenAI's clients send headers of their own (X-Stainless-...), others theirs: an origin that is
  // trusted with the API may send any.
  const std::string_view asked = request.Header("access-control-request-headers");
  const bool is_plain = std::all_of(asked.begin(), asked.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_., ").find(c) != std::string_view::npos;
  });
  if (!asked.empty() && is_plain && asked.size() <= kMaxAskedHeaders) {
    headers.emplace_back("Access-Control-Allow-Headers", asked);
  }
  return headers;
}

void UseForwarded(const AccessPolicy& policy, net::HttpRequest& request) {
  if (!policy.trusted_proxies.contains(request.remote_address)) return;
  // Each proxy adds whom it got the request from at the end; what stands before the first one that
  // is not trusted may be invented. A header that comes twice is one list.
  std::string list;
  for (const auto& [name, value] : request.headers) {
    if (name == "x-forwarded-for") list += (list.empty() ? "" : ",") + value;
  }
  for (std::string_view rest = list; !rest.empty();) {
    const size_t comma = rest.rfind(',');
    const std::string address(
        Trimmed(comma == std::string_view::npos ? rest : rest.substr(comma + 1)));
    if (!net::IsIpAddress(address)) break;
    request.remote_address = address;
    if (!policy.trusted_proxies.contains(address) || comma == std::string_view::npos) break;
    rest = rest.substr(0, comma);
  }
  request.remote_is_loopback = net::IsLoopbackAddress(request.remote_address);
  const std::string_view scheme = request.Header("x-forwarded-proto");
  if (!scheme.empty()) request.over_tls = scheme == "https";
}

}  // namespace weft::server
