// /api/keys: named API keys of a server that runs, for who has an admin key.
#pragma once

#include <vector>

#include "server/key_keeper.h"
#include "server/router.h"

namespace weft::server {

// GET /api/keys lists them, POST /api/keys makes one and tells it this once, DELETE /api/keys/NAME
// ends it. `keeper` outlives the routes.
std::vector<Route> KeyRoutes(KeyKeeper* keeper);

}  // namespace weft::server
