// The table of everything that `weft serve` answers.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/ollama_models.h"
#include "server/chat_routes.h"
#include "server/clustered_generator.h"
#include "server/embedding_routes.h"
#include "server/evictions.h"
#include "server/health_routes.h"
#include "server/key_keeper.h"
#include "server/package_routes.h"
#include "server/response_store.h"
#include "server/router.h"
#include "server/sharing.h"
#include "server/static_files.h"
#include "server/swarm_feed.h"
#include "server/swarm_host.h"
#include "server/what_if.h"

namespace weft::server {

// What answers. All outlive the routes; `files` may be null: no page was built.
struct RouteParts {
  SwarmHost* host = nullptr;
  ClusteredGenerator* clustered = nullptr;  // of a cell of a cluster
  SwarmFeed* feed = nullptr;
  WhatIf* what_if = nullptr;
  ChatRoutes* chat = nullptr;
  EmbeddingRoutes* embeddings = nullptr;
  PackageRoutes* package = nullptr;
  const StaticFiles* files = nullptr;
  const SharedLinks* links = nullptr;
  const net::TlsContext* tls = nullptr;  // nullptr: none
  KeyKeeper* keys = nullptr;             // named ones
  const Evictions* evictions = nullptr;
  const api::OllamaModel* ollama_model = nullptr;
  size_t chat_body_bytes = 0;  // the longest request that a chat may be
  // Of a server of a cluster, which may send workers and requests elsewhere; else all are empty,
  // and `host` takes them.
  std::function<std::optional<api::ApiError>(const net::HttpRequest&)> admit_worker;
  std::function<net::WebSocketCallbacks(const net::HttpRequest&, bool is_owner,
                                        std::shared_ptr<net::WebSocket>)>
      connect_worker;
  std::function<std::optional<NotReady>()> find_not_ready;
  // Of the Responses API; models of one server share it.
  std::shared_ptr<ResponseStore> responses = std::make_shared<ResponseStore>();
};

// What answers for one model. The order of routes is always the same: without the parts, which may
// be null, they say where a model is asked, and must not be called.
std::vector<Route> CellRoutes(const RouteParts& parts);
// What answers for the server, whatever it serves.
std::vector<Route> ServerRoutes(const RouteParts& parts);
// Both, of a server of one model.
std::vector<Route> MakeRoutes(const RouteParts& parts);

// nullopt: a handshake of a worker may go on.
std::optional<api::ApiError> AdmitWorker(const net::HttpRequest& request);
// The same of one that may name its cell. `has_cell`: whether this server has one of that number.
std::optional<api::ApiError> AdmitWorker(const net::HttpRequest& request,
                                         const std::function<bool(uint32_t)>& has_cell);
// The number of the cell that a worker names; nullopt: none.
std::optional<uint32_t> CellNumber(const net::HttpRequest& request);
// Gives a route that is read.
Route GetRoute(std::string path, Secret secret,
               std::function<void(net::HttpRequest, std::shared_ptr<net::Responder>)> handle);

}  // namespace weft::server
