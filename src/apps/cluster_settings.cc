#include "apps/cluster_settings.h"

#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "apps/state_folder.h"
#include "base/log.h"
#include "base/sentence.h"
#include "cluster_host/cluster_member.h"

namespace weft::apps {
namespace {

constexpr const char* kSystemKey = "/etc/weft/cluster.key";

// One for each port, as records are.
std::filesystem::path IdFile(uint16_t port) {
  const std::filesystem::path folder = StateFolder();
  if (folder.empty() || port == 0) return {};
  return folder / ("server-" + std::to_string(port) + ".id");
}

Result<net::Url> ParseOwnUrl(const ServeOptions& options) {
  if (options.url.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "--cluster needs --url: how other servers and devices reach this one, e.g. "
                 "https://a.weft.school.lan.");
  if (!options.url.starts_with("https://") && !options.url.starts_with("http://"))
    return Error(
        ErrorCode::kInvalidArgument,
        Sentence("--url is '", options.url, "'; expected https://NAME or https://NAME:PORT."));
  ASSIGN_OR_RETURN(net::Url url, net::ParseUrl(options.url));
  if (!url.tls && !IsThisMachine(url))
    return Error(ErrorCode::kInvalidArgument,
                 Sentence("--url is '", options.url,
                          "'; servers of a cluster speak with each other over https."));
  return url;
}

bool IsSet(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

std::filesystem::path ClusterKeyFile(const std::string& named) {
  if (!named.empty()) return named;
  if (access(kSystemKey, R_OK) == 0 || geteuid() == 0) return kSystemKey;
  const std::filesystem::path folder = StateFolder();
  return folder.empty() ? folder : folder / "cluster.key";
}

std::string ClusterUrl(const std::string& named) {
  const char* const url = std::getenv("WEFT_CLUSTER");
  return named.empty() && url != nullptr ? url : named;
}

bool IsThisMachine(const net::Url& url) {
  return url.host == "localhost" || net::IsLoopbackAddress(url.host);
}

Status AddCluster(const ServeOptions& options, server::ServerOptions& server) {
  if (options.cluster.empty()) return OkStatus();
  if (options.packages.empty())
    return Error(ErrorCode::kInvalidArgument,
                 "A server of a cluster serves the models that it is told, from its start to its "
                 "end: name one or more packages.");
  if (!options.keys.empty() && options.keys != "off")
    return Error(ErrorCode::kInvalidArgument,
                 "--keys names a file, and the keys of a cluster are in its database: leave one of "
                 "--keys and --cluster out.");
  ASSIGN_OR_RETURN(const net::Url url, ParseOwnUrl(options));
  const std::filesystem::path path = ClusterKeyFile(options.cluster_key);
  auto key = cluster_host::ClusterKey::Read(path);
  if (!key.ok() && key.error().code() == ErrorCode::kNotFound)
    return Error(ErrorCode::kNotFound,
                 Sentence("There is no cluster's key '", path.string(),
                          "': run `weft cluster init` once, and copy the file that it writes to "
                          "each server."));
  if (!key.ok()) return key.error();
  ASSIGN_OR_RETURN(const std::vector<cluster_host::ClusterKey> keys,
                   cluster_host::SortKeys(options.cluster, *std::move(key)));
  if (server.port != 0 && url.port != server.port)
    LogInfo(
        "others reach this server at {}, and it listens on port {}: something in between has "
        "to connect them",
        options.url, server.port);
  if (!IsThisMachine(url)) {
    server.host_names.push_back(url.host);
    server.read_secrets = [read = std::move(server.read_secrets),
                           key = keys.front()]() -> Result<server::Secrets> {
      ASSIGN_OR_RETURN(server::Secrets secrets, read());
      // All servers let the same people in, whichever of them these ask.
      if (secrets.api_key.empty() && !IsSet("WEFT_API_KEY")) secrets.api_key = key.ApiKey();
      if (secrets.join_token.empty() && !IsSet("WEFT_JOIN_TOKEN"))
        secrets.join_token = key.JoinToken();
      return secrets;
    };
  }
  server.cluster =
      cluster_host::MemberOptions{options.cluster, options.url, keys, path, IdFile(options.port)};
  return OkStatus();
}

}  // namespace weft::apps
