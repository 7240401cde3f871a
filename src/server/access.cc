#include "server/access.h"

#include <algorithm>

#include "base/network.h"
#include "base/secret.h"
#include "net/address.h"
#include "net/http_fields.h"
#include "net/web_names.h"
#include "server/key_table.h"

namespace weft::server {
namespace {

constexpr uint32_t kRoot = 0;
constexpr size_t kMaxAskedHeaders = 1024;  // bytes of Access-Control-Request-Headers

api::ApiError Refusal(int status, std::string message, std::string code) {
  return {status, std::move(message), "invalid_request_error", "", std::move(code)};
}

bool IsListed(const AccessPolicy& policy, const net::HttpRequest& request) {
  const auto origin = net::CanonicalOrigin(request.Header("origin"));
  return origin && policy.allowed_origins.contains(*origin);
}

bool IsOwnOrigin(const net::HttpRequest& request) {
  const std::string scheme = request.over_tls ? "https://" : "http://";
  const auto own = net::CanonicalOrigin(scheme + std::string(request.Header("host")));
  return own && own == net::CanonicalOrigin(request.Header("origin"));
}

// Ports that stand there by default may be left out or named.
bool IsOurName(const AccessPolicy& policy, const net::HttpRequest& request) {
  const auto host = net::CanonicalAuthority(request.Header("host"));
  if (!host) return false;
  const std::string scheme = request.over_tls ? "https" : "http";
  return policy.allowed_hosts.contains(*host) ||
         policy.allowed_hosts.contains(net::WithoutDefaultPort(*host, scheme)) ||
         policy.allowed_hosts.contains(*host + (request.over_tls ? ":443" : ":80"));
}

std::optional<api::ApiError> CheckHost(const AccessPolicy& policy, const net::HttpRequest& request,
                                       bool may_lack_host) {
  const auto count = std::count_if(request.headers.begin(), request.headers.end(),
                                   [](const auto& header) { return header.first == "host"; });
  if (count == 0 && request.is_http_1_0 && may_lack_host) return std::nullopt;
  // RFC 9112 3.2.
  if (count > 1 || (count == 0 && !request.is_http_1_0)) {
    return Refusal(400,
                   "The request has " + std::to_string(count) +
                       " Host headers; a request of HTTP/1.1 has exactly one.",
                   "bad_host");
  }
  if (IsOurName(policy, request)) return std::nullopt;
  return Refusal(421,
                 "This server does not answer to the name '" +
                     std::string(request.Header("host").substr(0, 100)) +
                     "'. Add it with --host-name if it is yours.",
                 "unknown_host");
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
  const auto token = ShownSecret(request);
  if (!token) return false;
  const std::string hash = HashSecret(*token);
  const bool matches = IsOneOfHashes(hash, expected_hash, earlier_hashes);
  if (matches && policy.on_use) policy.on_use(hash);
  return matches;
}

bool CarriesApiKey(const AccessPolicy& policy, const net::HttpRequest& request) {
  return Carries(policy, request, policy.api_key_hash, policy.earlier_api_key_hashes);
}

// The role that a route is for, beside admins.
store::Role RoleFor(Secret secret) {
  switch (secret) {
    case Secret::kApiKey:
      return store::Role::kUser;
    case Secret::kMetrics:
      return store::Role::kMetrics;
    case Secret::kJoinToken:
    case Secret::kWorkerSocket:
      return store::Role::kHelper;
    default:
      return store::Role::kAdmin;
  }
}

// Of a key that is known. Only who has it learns what it is called and why it does not do.
std::optional<api::ApiError> CheckNamedKey(const KeyTable& keys, const store::Key& key,
                                           Secret secret) {
  if (auto end = keys.FindEnd(key)) return end;
  const store::Role wanted = RoleFor(secret);
  if (key.role == wanted || key.role == store::Role::kAdmin) return std::nullopt;
  return Refusal(403,
                 "The API key '" + key.name + "' has the role '" +
                     std::string(store::RoleName(key.role)) + "'; this wants the role '" +
                     std::string(store::RoleName(wanted)) + "'.",
                 "insufficient_permissions");
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

// Of whoever shows no named key.
std::optional<api::ApiError> CheckApiKey(const AccessPolicy& policy,
                                         const net::HttpRequest& request) {
  if (policy.api_key_hash.empty()) return CheckUser(policy, request);
  if (CarriesApiKey(policy, request)) return std::nullopt;
  return Refusal(401,
                 "This server wants its API key as 'Authorization: Bearer <key>'; 'weft serve' "
                 "printed it.",
                 "invalid_api_key");
}

std::optional<api::ApiError> CheckJoinToken(const AccessPolicy& policy,
                                            const net::HttpRequest& request) {
  if (policy.join_token_hash.empty()) return CheckUser(policy, request);
  if (Carries(policy, request, policy.join_token_hash, policy.earlier_join_token_hashes)) {
    return std::nullopt;
  }
  if (!policy.api_key_hash.empty() && CarriesApiKey(policy, request)) return std::nullopt;
  return Refusal(401,
                 "This swarm wants its join token as 'Authorization: Bearer <token>'; the join "
                 "link carries it.",
                 "invalid_join_token");
}

}  // namespace

const store::Key* NamedKeyOf(const AccessPolicy& policy, const net::HttpRequest& request) {
  if (policy.keys == nullptr || policy.keys->keys().empty()) return nullptr;
  const auto secret = ShownSecret(request);
  return secret ? policy.keys->Find(HashSecret(*secret)) : nullptr;
}

std::string ClientOf(const AccessPolicy& policy, const net::HttpRequest& request) {
  if (const store::Key* named = NamedKeyOf(policy, request)) return ClientOfKey(named->id);
  const std::string network = NetworkOf(request.remote_address);
  const auto key = ShownSecret(request);
  return policy.api_key_hash.empty() || !key ? network : network + " " + HashSecret(*key);
}

std::string SaltOf(const AccessPolicy& policy, const net::HttpRequest& request) {
  if (const store::Key* named = NamedKeyOf(policy, request)) return named->hash;
  const auto key = ShownSecret(request);
  return policy.api_key_hash.empty() || !key ? "" : HashSecret(*key);
}

std::optional<std::string_view> ShownSecret(const net::HttpRequest& request) {
  const std::string_view header = request.Header("authorization");
  if (header.empty()) {
    const std::string_view key = net::Trimmed(request.Header("x-api-key"));
    return key.empty() ? std::nullopt : std::optional(key);
  }
  const size_t space = header.find(' ');
  if (space == std::string_view::npos ||
      !net::EqualsIgnoringCase(header.substr(0, space), "bearer")) {
    return std::nullopt;
  }
  return net::Trimmed(header.substr(space));
}

std::optional<api::ApiError> CheckHostAndOrigin(const AccessPolicy& policy,
                                                const net::HttpRequest& request,
                                                bool may_lack_host) {
  if (auto refusal = CheckHost(policy, request, may_lack_host)) return refusal;
  const std::string origin(request.Header("origin"));
  if (!origin.empty()) {
    if (IsOwnOrigin(request) || IsListed(policy, request)) return std::nullopt;
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
  if (secret == Secret::kNone) return std::nullopt;
  if (const store::Key* named = NamedKeyOf(policy, request))
    return CheckNamedKey(*policy.keys, *named, secret);
  switch (secret) {
    case Secret::kNone:
      break;
    case Secret::kApiKey:
    case Secret::kAdmin:
    case Secret::kMetrics:
      return CheckApiKey(policy, request);
    case Secret::kWorkerSocket:
      // Of browsers, whose Connect carries it.
      if (!policy.join_token_hash.empty() && request.Header("authorization").empty())
        return std::nullopt;
      return CheckJoinToken(policy, request);
    case Secret::kJoinToken:
      return CheckJoinToken(policy, request);
  }
  return Refusal(401, "This route is closed.", "");
}

bool IsPreflight(const AccessPolicy& policy, const net::HttpRequest& request) {
  return request.method == "OPTIONS" && IsListed(policy, request) &&
         net::IsFieldToken(request.Header("access-control-request-method"));
}

bool IsOwner(const AccessPolicy& policy, const net::HttpRequest& request) {
  if (!policy.api_key_hash.empty() && CarriesApiKey(policy, request)) return true;
  if (const store::Key* named = NamedKeyOf(policy, request))
    return !CheckNamedKey(*policy.keys, *named, Secret::kAdmin);
  const bool is_forwarded =
      !request.Header("x-forwarded-for").empty() || !request.Header("forwarded").empty();
  if (!policy.own_user || !request.remote_is_loopback || is_forwarded) return false;
  return request.peer_user() == policy.own_user;
}

net::Headers CorsHeaders(const AccessPolicy& policy, const net::HttpRequest& request,
                         const std::string& methods) {
  if (policy.allowed_origins.empty()) return {};
  // Also for those who get nothing: what a cache keeps for them is not for others.
  net::Headers headers = {{"Vary", "Origin"}};
  if (!IsListed(policy, request)) return headers;
  headers.emplace_back("Access-Control-Allow-Origin", request.Header("origin"));
  headers.emplace_back("Access-Control-Expose-Headers",
                       "Retry-After, Date, Allow, WWW-Authenticate, Accept-Encoding, ETag, "
                       "Content-Range, X-Request-Id, X-Ratelimit-Limit-Requests, "
                       "X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests");
  if (!IsPreflight(policy, request)) return headers;
  const std::string method(request.Header("access-control-request-method"));
  const auto known = net::ListMembers(methods);
  const bool is_known = std::find(known.begin(), known.end(), method) != known.end();
  headers.emplace_back("Access-Control-Allow-Methods",
                       is_known ? methods : methods + ", " + method);
  headers.emplace_back("Access-Control-Max-Age", "600");
  // A page of the internet that asks a server of the network at home.
  if (net::EqualsIgnoringCase(request.Header("access-control-request-private-network"), "true")) {
    headers.emplace_back("Access-Control-Allow-Private-Network", "true");
  }
  // OpenAI's clients send headers of their own (X-Stainless-...), others theirs: an origin that is
  // trusted with the API may send any.
  const std::string asked = request.HeaderList("access-control-request-headers");
  const auto names = net::ListMembers(asked);
  if (!names.empty() && asked.size() <= kMaxAskedHeaders &&
      std::all_of(names.begin(), names.end(), net::IsFieldToken)) {
    headers.emplace_back("Access-Control-Allow-Headers", asked);
  }
  return headers;
}

namespace {

// "203.0.113.9", "203.0.113.9:4711", "[2001:db8::1]:4711", "\"2001:db8::1\"": the address alone; ""
// for what is none.
std::string AddressOf(std::string_view member) {
  if (member.size() >= 2 && member.starts_with('"') && member.ends_with('"')) {
    member = member.substr(1, member.size() - 2);
  }
  if (member.starts_with('[')) {
    const size_t end = member.find(']');
    return end == std::string_view::npos ? "" : net::CanonicalAddress(member.substr(1, end - 1));
  }
  if (std::count(member.begin(), member.end(), ':') == 1) {
    member = member.substr(0, member.find(':'));
  }
  return net::CanonicalAddress(member);
}

}  // namespace

void UseForwarded(const AccessPolicy& policy, net::HttpRequest& request) {
  const auto is_trusted = [&policy](const std::string& address) {
    return policy.trusted_proxies.contains(address);
  };
  if (!is_trusted(net::CanonicalAddress(request.remote_address))) return;
  // Each proxy adds whom it got the request from at the end; what stands before the first one that
  // is not trusted may be invented. A header that comes twice is one list.
  const std::string list = request.HeaderList("x-forwarded-for");
  const auto members = net::ListMembers(list);
  size_t hops = 0;  // trusted proxies that told of another one
  for (auto member = members.rbegin(); member != members.rend(); ++member) {
    const std::string address = AddressOf(*member);
    if (address.empty()) break;
    request.remote_address = address;
    if (!is_trusted(address) || std::next(member) == members.rend()) break;
    ++hops;
  }
  request.remote_is_loopback = net::IsLoopbackAddress(request.remote_address);
  // Proxies that add to this list, too, do so at the same place.
  const std::string schemes = request.HeaderList("x-forwarded-proto");
  const auto told = net::ListMembers(schemes);
  if (told.empty()) return;
  const std::string_view scheme = told[told.size() - 1 - std::min(hops, told.size() - 1)];
  request.over_tls = net::EqualsIgnoringCase(scheme, "https");
}

}  // namespace weft::server
