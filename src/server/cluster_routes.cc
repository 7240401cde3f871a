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
    servers.push_back(json::object{{"name", server.name},
                                   {"url", server.url},
                                   {"fingerprint", ToHex(server.fingerprint)},
                                   {"model", server.model},
                                   {"version", server.version},
                                   {"seen_ms", server.seen.us / 1000},
                                   {"is_linked", is_self || leases.links().IsUp(server.id)},
                                   {"is_draining", server.is_draining}});
  }
  return servers;
}

// What the server hears itself counts more than the tables, which may be away.
json::array CellsJson(const cluster_host::LeaseHost& leases, const Cell& cell) {
  json::array cells;
  for (const shared_store::SharedCell& each : leases.tables().cells) {
    json::object out{{"cell", each.row.cell.value()},
                     {"model", each.model},
                     {"incarnation", each.row.incarnation.value()},
                     {"holder", NameOf(leases.tables(), each.row.holder.server)},
                     {"up", each.up},
                     {"workers", each.workers}};
    if (each.model == cell.name()) {
      const auto leader = leases.FindLeader();
      out["leader"] = leader ? json::value(leader->name) : json::value(nullptr);
    }
    cells.push_back(std::move(out));
  }
  return cells;
}

void AnswerCluster(ClusterMember& member, const Cell& cell, net::Responder& client) {
  const cluster_host::LeaseHost& leases = member.leases();
  client.Send(
      JsonResponse(200, json::serialize(json::object{{"cluster", leases.tables().cluster},
                                                     {"server", leases.self().name},
                                                     {"leads", leases.leads()},
                                                     {"database", leases.is_database_there()},
                                                     {"servers", ServersJson(leases)},
                                                     {"cells", CellsJson(leases, cell)}})));
}

void AnswerNoSocket(const Request&, const Client& client) {
  client->Send(ErrorResponse({426, "Servers of a cluster connect here with a WebSocket.",
                              "invalid_request_error", "", "upgrade_required"}));
}

}  // namespace

std::vector<Route> ClusterRoutes(ClusterMember& member, const Cell& cell) {
  return {
      GetRoute("/api/cluster", Secret::kApiKey,
               [all = &member, cell = &cell](const Request&, const Client& client) {
                 AnswerCluster(*all, *cell, *client);
               }),
      // The key is proved over the link itself.
      {"GET", cluster_host::kLinkPath, Secret::kNone, 0, AnswerNoSocket,
       [](const Request&) { return std::optional<api::ApiError>(); },
       [all = &member](const Request&, bool, std::shared_ptr<net::WebSocket> socket) {
         return all->links().Accept(std::move(socket));
       }},
  };
}

}  // namespace weft::server
