// Who may do what (SECURITY.md 1, 2): Host and Origin of every request, API key, join token.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "net/http.h"

namespace weft::server {

struct AccessPolicy {
  // "host:port" values a request's Host header may have; anything else is refused (DNS rebinding).
  std::set<std::string> allowed_hosts;
  // Origins beside the server's own that may call it from a page (CORS), e.g.
  // "https://example.org".
  std::set<std::string> allowed_origins;
  // SHA-256 of key and token in hex; "" demands none. Kept hashed: a look at memory or a core dump
  // tells nothing usable.
  std::string api_key_hash;
  std::string join_token_hash;
};

// nullopt: go on. Otherwise the refusal to send.
std::optional<net::HttpResponse> CheckHostAndOrigin(const AccessPolicy& policy,
                                                    const net::HttpRequest& request);

enum class Secret { kApiKey, kJoinToken };
// True when the request carries `Authorization: Bearer <secret>` for one of the accepted kinds, or
// none is demanded.
bool HasSecret(const AccessPolicy& policy, const net::HttpRequest& request,
               std::initializer_list<Secret> accepted);

// The CORS headers for a request whose Origin is on the list; empty otherwise.
net::Headers CorsHeaders(const AccessPolicy& policy, const net::HttpRequest& request);

// SHA-256 of a secret in hex.
std::string HashSecret(std::string_view secret);
// True when they are equal; takes the same time wherever they differ.
bool ConstantTimeEquals(std::string_view a, std::string_view b);

}  // namespace weft::server
