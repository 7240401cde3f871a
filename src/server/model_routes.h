// The routes of a server with several models: those of a model's cell, each sent to the cell that a
// request means, and lists of all models.
#pragma once

#include <string>
#include <vector>

#include "net/http.h"
#include "server/models.h"
#include "server/routes.h"

namespace weft::server {

// `parts`: those of the server (ServerRoutes). What is pointed to, `loop` and `models` outlive the
// routes.
std::vector<Route> SeveralModelsRoutes(net::EventLoop& loop, Models& models,
                                       const RouteParts& parts);

// The model that a request means, as its name; as it is asked where it means none that is known.
std::string ModelOf(const Models& models, const net::HttpRequest& request);

}  // namespace weft::server
