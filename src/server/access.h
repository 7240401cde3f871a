// Who may do what (SECURITY.md): Host, Origin and Sec-Fetch-Site of every request, API key, join
// token, and on loopback the user who asks.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "api/openai_request.h"
#include "net/http.h"
#include "store/key.h"

namespace weft::server {

class KeyTable;

struct AccessPolicy {
  // "host:port" values a request's Host header may have; anything else is refused (DNS rebinding).
  // Hosts, origins and addresses here are in the spelling of net/web_names.h.
  std::set<std::string> allowed_hosts;
  // Origins beside the server's own that may call it from a page (CORS), e.g.
  // "https://example.org".
  std::set<std::string> allowed_origins;
  // Addresses of proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
  std::set<std::string> trusted_proxies;
  // SHA-256 of key and token in hex; "" demands none. Kept hashed: a look at memory or a core dump
  // tells nothing usable.
  std::string api_key_hash;
  std::string join_token_hash;
  // Those of earlier starts, which are as good where one is demanded.
  std::vector<std::string> earlier_api_key_hashes, earlier_join_token_hashes;
  // Named keys, which count beside the API key, and where none is demanded; outlives the policy.
  // nullptr: there are none.
  KeyTable* keys = nullptr;
  // Told the hash by which somebody was let in; may be empty.
  std::function<void(const std::string& hash)> on_use;
  // Where no secret is demanded: only processes of this user and of root may use what would need
  // one. nullopt: anyone who can connect.
  std::optional<uint32_t> only_user;
  // The user that this process runs as. Whoever is that user, and on loopback, is the owner. There
  // is one where connections tell of their user and others do not come through a proxy of this
  // machine.
  std::optional<uint32_t> own_user;
};

// What a route demands beside what is demanded of every request. The API key of a start opens all
// of them, and so does a named key whose role is admin.
enum class Secret {
  kNone,
  kApiKey,        // a named key whose role is user, too
  kAdmin,         // no other named key
  kMetrics,       // one whose role is metrics, too
  kJoinToken,     // one whose role is helper, too
  kWorkerSocket,  // browsers cannot send a header with it: Connect carries the token, but one that
                  // does come in a header must be right
};

// nullopt: go on. Otherwise the refusal to send: of names that are not ours, and of pages of
// others. With `may_lack_host` a client of HTTP/1.0 need not say whom it asks: no page comes so.
std::optional<api::ApiError> CheckHostAndOrigin(const AccessPolicy& policy,
                                                const net::HttpRequest& request,
                                                bool may_lack_host = false);

// nullopt: the request carries the secret (ShownSecret), or none is demanded and its user may do
// without.
std::optional<api::ApiError> CheckSecret(const AccessPolicy& policy,
                                         const net::HttpRequest& request, Secret secret);

// Whether whoever asks is the owner of this server as far as can be told: it carries the API key,
// or comes from this machine as the server's own user, and nothing stands in between that others
// come through.
bool IsOwner(const AccessPolicy& policy, const net::HttpRequest& request);

// The headers that let a page of a listed origin read an answer, and ask with whatever headers it
// likes; empty for all others. `methods`: what the path answers. A page may ask with any other, to
// be told that it is not answered.
net::Headers CorsHeaders(const AccessPolicy& policy, const net::HttpRequest& request,
                         const std::string& methods);

// Whether a listed origin's browser asks what its page may do.
bool IsPreflight(const AccessPolicy& policy, const net::HttpRequest& request);

// Puts address and scheme that a trusted proxy tells of its client in place of the proxy's own.
void UseForwarded(const AccessPolicy& policy, net::HttpRequest& request);

// The named key that the request shows, which may have ended; nullptr: it shows none.
const store::Key* NamedKeyOf(const AccessPolicy& policy, const net::HttpRequest& request);

// As whom turns and shares count the sender: as its named key (ClientOfKey), wherever it comes
// from. Otherwise as its address (base/network.h), with the API key that it showed where one is
// demanded: that one may be everybody's, so it alone tells nobody apart.
std::string ClientOf(const AccessPolicy& policy, const net::HttpRequest& request);

// Whose computations the sender shares (swarm::Request::salt): those of everybody with the same API
// key, named or not; of everybody where none is demanded and no named one is shown. So the time
// that an answer takes tells nobody what those with another key have asked.
std::string SaltOf(const AccessPolicy& policy, const net::HttpRequest& request);

// What follows `Authorization: Bearer`, a scheme in any case; without that header what X-Api-Key
// has, where Anthropic's clients put it. nullopt: nothing is shown.
std::optional<std::string_view> ShownSecret(const net::HttpRequest& request);

}  // namespace weft::server
