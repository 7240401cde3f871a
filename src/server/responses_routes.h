// Routes of the Responses API: for an answer, for an earlier answer, and to forget it. OpenAI's
// clients also ask here for embeddings, in vain.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "server/chat_routes.h"
#include "server/response_store.h"
#include "server/router.h"

namespace weft::server {

// `chat` outlives the routes; `body_bytes`: the longest request that a chat may be.
// `store` has what was answered before.
std::vector<Route> ResponsesRoutes(ChatRoutes* chat, size_t body_bytes,
                                   const std::shared_ptr<ResponseStore>& store);

}  // namespace weft::server
