// Where Anthropic's and Ollama's clients ask, and what they ask for in vain.
#pragma once

#include <cstddef>
#include <vector>

#include "api/ollama_models.h"
#include "server/chat_routes.h"
#include "server/router.h"
#include "server/swarm_host.h"

namespace weft::server {

// What is pointed to outlives the routes; `body_bytes`: the longest request that a chat may be.
std::vector<Route> AnthropicRoutes(ChatRoutes* chat, size_t body_bytes);
// GET /v1/models and /v1/models/NAME, in the form of whoever asks.
std::vector<Route> ModelRoutes(ChatRoutes* chat);
std::vector<Route> OllamaRoutes(ChatRoutes* chat, size_t body_bytes);
// What the devices of the active plan hold.
api::OllamaHeld HeldOf(const api::OllamaModel& model, const SwarmHost& host);
// What Ollama's clients ask of models.
std::vector<Route> OllamaModelRoutes(const api::OllamaModel* model, const SwarmHost* host);

}  // namespace weft::server
