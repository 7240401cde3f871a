#include "server/sharing.h"

#include <cstdlib>

#include "base/random.h"
#include "net/address.h"
#include "server/qr_code.h"

namespace weft::server {
namespace {

constexpr size_t kSecretBytes = 16;  // 128 bits

std::string SecretFrom(const char* environment_name) {
  const char* given = std::getenv(environment_name);
  return given != nullptr && *given != '\0' ? given : SecureRandomHex(kSecretBytes);
}

}  // namespace

Result<Secrets> MakeSecrets() {
  Secrets secrets;
  secrets.api_key = SecretFrom("WEFT_API_KEY");
  secrets.join_token = SecretFrom("WEFT_JOIN_TOKEN");
  for (const std::string* secret : {&secrets.api_key, &secrets.join_token}) {
    if (secret->size() < 2 * kSecretBytes) {
      return Error(ErrorCode::kInvalidArgument,
                   "WEFT_API_KEY and WEFT_JOIN_TOKEN must have at least 32 characters; leave them "
                   "unset to have new ones made.");
    }
  }
  return secrets;
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
  const std::string digits = std::to_string(port);
  const uint16_t default_port = tls ? 443 : 80;
  for (const std::string& host : Hosts()) {
    allowed.insert(net::HostInUrl(host) + ":" + digits);
    if (port == default_port) allowed.insert(net::HostInUrl(host));
  }
  allowed.insert("[::1]:" + digits);
  // A name given with its own port is behind a proxy and comes as it is.
  allowed.insert(host_names.begin(), host_names.end());
  return allowed;
}

std::string Reach::Base(const std::string& scheme) const {
  // Who listens on ::1 alone is not at 127.0.0.1.
  const bool is_v6 = PlainAddress().find(':') != std::string::npos;
  const std::string host = IsPublic() ? Hosts().front() : is_v6 ? "::1" : "127.0.0.1";
  return scheme + (tls ? "s" : "") + "://" + net::HostInUrl(host) + ":" + std::to_string(port);
}

ShareInfo MakeShare(const Reach& reach, const Secrets& secrets) {
  ShareInfo share;
  share.lan = reach.IsPublic();
  share.chat_url = reach.Base("http") + "/";
  share.join_url = reach.Base("http") + "/join";
  if (!secrets.join_token.empty()) share.join_url += "#" + secrets.join_token;
  if (share.lan) share.qr_svg = QrAsSvg(share.join_url);
  return share;
}

}  // namespace weft::server
