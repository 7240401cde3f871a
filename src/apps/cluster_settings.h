// What `weft serve` and `weft cluster` are told of a cluster.
#pragma once

#include <filesystem>
#include <string>

#include "apps/serve_options.h"
#include "base/result.h"
#include "net/address.h"
#include "server/server_options.h"

namespace weft::apps {

// `named`, else /etc/weft/cluster.key where that can be read, or made by `weft cluster init`; else
// cluster.key in the state folder. "": there is no folder for it.
std::filesystem::path ClusterKeyFile(const std::string& named);

// The address of the cluster's database: `named`, else that of the environment; "": there is none.
std::string ClusterUrl(const std::string& named);

// Only programs of this machine can reach it.
bool IsThisMachine(const net::Url& url);

// Adds what a server of a cluster needs, and the secrets that follow from its key where none are
// chosen. Nothing happens without --cluster. Errors are sentences that say what to do.
Status AddCluster(const ServeOptions& options, server::ServerOptions& server);

}  // namespace weft::apps
