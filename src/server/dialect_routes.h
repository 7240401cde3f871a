// Where Anthropic's and Ollama's clients ask, and what they ask for in vain.
#pragma once

#include <cstddef>
#include <vector>

#include "server/chat_routes.h"
#include "server/router.h"

namespace weft::server {

// `chat` outlives the routes; `body_bytes`: the longest request that a chat may be.
std::vector<Route> AnthropicRoutes(ChatRoutes* chat, size_t body_bytes);
std::vector<Route> OllamaRoutes(ChatRoutes* chat, size_t body_bytes);

}  // namespace weft::server
