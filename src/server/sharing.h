// How others reach a server and what they need for it: addresses, names, secrets, links.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "net/http.h"

namespace weft::server {

// Secrets in clear, only between making them and printing them; "" demands none.
struct Secrets {
  std::string api_key;
  std::string join_token;
  // Somebody has chosen it: others of its kind, made before, are not let in any more.
  bool key_is_set = false, token_is_set = false;
};

// WEFT_API_KEY and WEFT_JOIN_TOKEN, which count wherever the server listens; a new one for what is
// not set when the other one is, or when `demanded`. Their values are wiped from the process's
// environment. What is in `given` counts more. kInvalidArgument when one of them is too short.
Result<Secrets> MakeSecrets(bool demanded, Secrets given = {});
Secrets RandomSecrets();
// Overwrites their bytes.
void Wipe(Secrets& secrets);

// Where a server listens and the names that it answers to.
struct Reach {
  std::string address;                  // that it listens on
  std::vector<std::string> host_names;  // further ones, as given with --host-name
  uint16_t port = 0;
  bool tls = false;
  std::string url;  // that its owner gives others, as net::ParseUrl takes it; "": its own address

  // Other devices can connect.
  bool IsPublic() const;
  // `address` without the brackets that may stand around IPv6.
  std::string PlainAddress() const;
  // Names and addresses without ports, those that others use first.
  std::vector<std::string> Hosts() const;
  // The values that a request's Host header may have, as net/web_names.h spells them.
  std::set<std::string> AllowedHosts() const;
  // "http://192.168.1.7:8080" for "http", with an s where there is TLS.
  std::string Base(const std::string& scheme) const;
  // The same for others: "https://a.weft.school.lan" where that is the url, else Base.
  std::string PublicBase(const std::string& scheme) const;
  std::string JoinUrl(const std::string& join_token) const;
};

// What GET /api/share tells a page that may see it. The join token is kept under the API key: every
// such page shows that key, and the server itself does not know it. So a look at its memory gives
// neither.
class SharedLinks {
 public:
  SharedLinks() = default;
  SharedLinks(const Reach& reach, const Secrets& secrets);

  // A key of an earlier start, by its hash, and what hidden_token() was then.
  void AddEarlier(const std::string& api_key_hash, const std::string& hidden_token) {
    earlier_tokens_[api_key_hash] = hidden_token;
  }
  // The join token under the API key.
  const std::string& hidden_token() const { return hidden_token_; }

  // REQUIRES: the request carries the API key where one is demanded, or a named one. A named key
  // does not tell the join token: the link is told without it then.
  std::string ToJson(const net::HttpRequest& request) const;

 private:
  Reach reach_;
  std::string hidden_token_;
  std::string api_key_hash_;  // under which it is hidden; "": no key
  std::map<std::string, std::string> earlier_tokens_;
};

}  // namespace weft::server
