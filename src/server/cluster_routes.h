// What a server of a cluster answers to other servers and to whoever looks after it.
#pragma once

#include <vector>

#include "cluster_host/cluster_member.h"
#include "server/router.h"

namespace weft::server {

// GET /cluster/v1/link, for servers with the cluster's key; GET /api/cluster. It outlives them.
std::vector<Route> ClusterRoutes(cluster_host::ClusterMember& member);

}  // namespace weft::server
