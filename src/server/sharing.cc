#include "server/sharing.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>

#include "base/check.h"
#include "base/random.h"
#include "base/secret.h"
#include "base/sha256.h"
#include "net/address.h"
#include "net/web_names.h"
#include "server/access.h"
#include "server/qr_code.h"

namespace weft::server {
namespace json = boost::json;

namespace {

constexpr size_t kSecretBytes = 16;  // 128 bits
constexpr char kApiKeyName[] = "WEFT_API_KEY";
constexpr char kJoinTokenName[] = "WEFT_JOIN_TOKEN";

// `text` under a stream of bytes that only who has `key` can make again; the same call undoes it.
std::string Masked(std::string text, std::string_view key) {
  for (size_t block = 0; block * sizeof(Sha256Digest) < text.size(); ++block) {
    const std::string input = "weft share " + std::to_string(block) + " " + std::string(key);
    const Sha256Digest mask = Sha256(AsBytes(input));
    const size_t begin = block * mask.size();
    for (size_t i = 0; i < mask.size() && begin + i < text.size(); ++i) {
      text[begin + i] = static_cast<char>(static_cast<uint8_t>(text[begin + i]) ^ mask[i]);
    }
  }
  return text;
}

// Of a secret that was given; it is not shown.
Status CheckLength(const char* name, const std::string& secret) {
  constexpr size_t kLeast = 2 * kSecretBytes;
  if (secret.empty() || secret.size() >= kLeast) return OkStatus();
  return Error(ErrorCode::kInvalidArgument,
               std::string(name) + " has " + std::to_string(secret.size()) +
                   " characters, but must have at least " + std::to_string(kLeast) +
                   "; leave it unset to have a new one made.");
}

}  // namespace

Secrets RandomSecrets() {
  return {SecureRandomHex(kSecretBytes), SecureRandomHex(kSecretBytes)};
}

Result<Secrets> MakeSecrets(bool demanded, Secrets given) {
  // Both leave the environment, whatever is wrong with one of them.
  Secrets set = {TakeFromEnvironment(kApiKeyName), TakeFromEnvironment(kJoinTokenName)};
  if (given.api_key.empty()) given.api_key.swap(set.api_key);
  if (given.join_token.empty()) given.join_token.swap(set.join_token);
  Wipe(set);
  given.key_is_set = !given.api_key.empty();
  given.token_is_set = !given.join_token.empty();
  TRY(CheckLength(kApiKeyName, given.api_key));
  TRY(CheckLength(kJoinTokenName, given.join_token));
  if (given.api_key.empty() && given.join_token.empty() && !demanded) return given;
  const Secrets made = RandomSecrets();
  if (given.api_key.empty()) given.api_key = made.api_key;
  if (given.join_token.empty()) given.join_token = made.join_token;
  return given;
}

void Wipe(Secrets& secrets) {
  for (std::string* secret : {&secrets.api_key, &secrets.join_token}) weft::Wipe(*secret);
}

bool Reach::IsPublic() const {
  return !net::IsLoopbackAddress(PlainAddress());
}

// "[::]" is how people write "::" where a port may follow.
std::string Reach::PlainAddress() const {
  return address.starts_with('[') && address.ends_with(']') ? address.substr(1, address.size() - 2)
                                                            : address;
}

std::vector<std::string> Reach::Hosts() const {
  std::vector<std::string> hosts;
  const std::string plain = PlainAddress();
  const bool is_v6 = plain.find(':') != std::string::npos;
  const bool is_any = plain == "0.0.0.0" || plain == "::";
  if (is_any) hosts = net::LanAddresses(is_v6);
  if (!is_any && IsPublic()) hosts.push_back(plain);
  hosts.insert(hosts.end(), host_names.begin(), host_names.end());
  hosts.insert(hosts.end(), {"localhost", "127.0.0.1"});
  if (is_v6) hosts.emplace_back("::1");
  return hosts;
}

std::set<std::string> Reach::AllowedHosts() const {
  std::set<std::string> allowed;
  const auto allow = [&allowed](const std::string& authority) {
    if (auto canonical = net::CanonicalAuthority(authority)) allowed.insert(std::move(*canonical));
  };
  const std::string digits = std::to_string(port);
  const uint16_t default_port = tls ? 443 : 80;
  for (const std::string& host : Hosts()) {
    allow(net::HostInUrl(host) + ":" + digits);
    if (port == default_port) allow(net::HostInUrl(host));
  }
  allow("[::1]:" + digits);
  // A name given with its own port is behind a proxy and comes as it is.
  for (const std::string& name : host_names) allow(net::HostInUrl(name));
  return allowed;
}

std::string Reach::Base(const std::string& scheme) const {
  // Who listens on ::1 alone is not at 127.0.0.1.
  const bool is_v6 = PlainAddress().find(':') != std::string::npos;
  const std::string host = IsPublic() ? Hosts().front() : is_v6 ? "::1" : "127.0.0.1";
  return scheme + (tls ? "s" : "") + "://" + net::HostInUrl(host) + ":" + std::to_string(port);
}

std::string Reach::PublicBase(const std::string& scheme) const {
  if (url.empty()) return Base(scheme);
  const auto parsed = net::ParseUrl(url);
  CHECK(parsed.ok(), "the url of a server was parsed when it started");
  const bool is_default = parsed->port == (parsed->tls ? 443 : 80);
  return scheme + (parsed->tls ? "s" : "") + "://" +
         (is_default ? net::HostInUrl(parsed->host) : parsed->Authority());
}

std::string Reach::JoinUrl(const std::string& join_token) const {
  return PublicBase("http") + "/join" + (join_token.empty() ? "" : "#" + join_token);
}

SharedLinks::SharedLinks(const Reach& reach, const Secrets& secrets)
    : reach_(reach),
      hidden_token_(Masked(secrets.join_token, secrets.api_key)),
      api_key_hash_(secrets.api_key.empty() ? "" : HashSecret(secrets.api_key)) {}

std::string SharedLinks::ToJson(const net::HttpRequest& request) const {
  const std::string key(ShownSecret(request).value_or(""));
  const std::string hash = HashSecret(key);
  const auto earlier = earlier_tokens_.find(hash);
  const bool is_own = api_key_hash_.empty() || hash == api_key_hash_;
  const std::string hidden = earlier != earlier_tokens_.end() ? earlier->second
                             : is_own                         ? hidden_token_
                                                              : "";
  const std::string join_url = reach_.JoinUrl(Masked(hidden, key));
  const std::string qr_svg = reach_.IsPublic() ? QrAsSvg(join_url) : "";
  return json::serialize(
      json::object{{"chat_url", reach_.PublicBase("http") + "/"},
                   {"join_url", join_url},
                   {"qr_svg", qr_svg.empty() ? json::value(nullptr) : json::value(qr_svg)},
                   {"lan", reach_.IsPublic()}});
}

}  // namespace weft::server
