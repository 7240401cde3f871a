// The table of everything that `weft serve` answers.
#pragma once

#include <vector>

#include "api/ollama_models.h"
#include "server/chat_routes.h"
#include "server/embedding_routes.h"
#include "server/key_keeper.h"
#include "server/package_routes.h"
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
  SwarmFeed* feed = nullptr;
  WhatIf* what_if = nullptr;
  ChatRoutes* chat = nullptr;
  EmbeddingRoutes* embeddings = nullptr;
  PackageRoutes* package = nullptr;
  const StaticFiles* files = nullptr;
  const SharedLinks* links = nullptr;
  const net::TlsContext* tls = nullptr;  // nullptr: none
  KeyKeeper* keys = nullptr;             // named ones
  const api::OllamaModel* ollama_model = nullptr;
  size_t chat_body_bytes = 0;  // the longest request that a chat may be
};

std::vector<Route> MakeRoutes(const RouteParts& parts);

}  // namespace weft::server
