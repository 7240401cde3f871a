#include "server/cluster_routes.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "server/responses.h"
#include "server/routes.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using cluster_host::ClusterMember;
using Request = net::HttpRequest;
using Client = std::shared_ptr<net::Responder>;

std::string NameOf(const shared_store::SharedTables& tables, cluster::ServerId id) {
  for (const shared_store::SharedServer& server : tables.servers)
    if (server.id == id) return server.name;
  return "";
}

json::array ServersJson(const cluster_host::LeaseHost& leases) {
  json::array servers;
  for (const shared_store::SharedServer& server : leases.tables().servers) {
    const bool is_self = server.id == leases.self().id;
    servers.push_back(
        json::object{{"name", server.name},
                     {"url", server.url},
                     {"fingerprint", ToHex(server.fingerprint)},
                     {"models", json::array(server.models.begin(), server.models.end())},
                     {"version", server.version},
                     {"seen_ms", server.seen.us / 1000},
                     {"is_linked", is_self || leases.links().IsUp(server.id)},
                     {"is_draining", server.is_draining}});
  }
  return servers;
}

// What the server hears itself counts more than the tables, which may be away.
json::array CellsJson(const cluster_host::LeaseHost& leases) {
  json::array cells;
  for (const shared_store::SharedCell& each : leases.tables().cells) {
    const cluster::CellId id = each.row.cell;
    const auto leader = leases.FindLeader(id);
    cells.push_back(
        json::object{{"cell", id.value()},
                     {"model", each.model},
                     {"incarnation", each.row.incarnation.value()},
                     {"holder", NameOf(leases.tables(), each.row.holder.server)},
                     {"up", each.up},
                     {"workers", each.workers},
                     {"leads", leases.leads(id)},
                     {"leader", leader ? json::value(leader->name) : json::value(nullptr)}});
  }
  return cells;
}

void AnswerCluster(ClusterMember& member, net::Responder& client) {
  const cluster_host::LeaseHost& leases = member.leases();
  client.Send(
      JsonResponse(200, json::serialize(json::object{{"cluster", leases.tables().cluster},
                                                     {"server", leases.self().name},
                                                     {"leads", leases.leads_any()},
                                                     {"database", leases.is_database_there()},
                                                     {"servers", ServersJson(leases)},
                                                     {"cells", CellsJson(leases)}})));
}

void AnswerNoSocket(const Request&, const Client& client) {
  client->Send(ErrorResponse({426, "Servers of a cluster connect here with a WebSocket.",
                              "invalid_request_error", "", "upgrade_required"}));
}

}  // namespace

std::vector<Route> ClusterRoutes(ClusterMember& member) {
  return {
      GetRoute(
          "/api/cluster", Secret::kApiKey,
          [all = &member](const Request&, const Client& client) { AnswerCluster(*all, *client); }),
      // The key is proved over the link itself.
      {"GET", cluster_host::kLinkPath, Secret::kNone, 0, AnswerNoSocket,
       [](const Request&) { return std::optional<api::ApiError>(); },
       [all = &member](const Request&, bool, std::shared_ptr<net::WebSocket> socket) {
         return all->links().Accept(std::move(socket));
       }},
  };
}

}  // namespace weft::server
