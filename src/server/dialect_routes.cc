#include "server/dialect_routes.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "api/ollama_request.h"
#include "api/openai_response.h"
#include "server/anthropic_answers.h"
#include "server/ollama_answers.h"
#include "server/responses.h"
#include "wire/version.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Handle = std::function<void(net::HttpRequest, std::shared_ptr<net::Responder>)>;
using Refuse = net::HttpResponse (*)(const api::ApiError&);

// Clients look whether a server is new enough for what they ask: this is the version of Ollama
// whose requests are understood.
constexpr const char* kOllamaVersion = "0.12.6";
constexpr size_t kSmallBodyBytes = 1 << 20;

Route RouteOf(std::string method, std::string path, size_t body_bytes, Refuse refuse,
              Handle handle) {
  Route route;
  route.method = std::move(method);
  route.path = std::move(path);
  route.secret = Secret::kApiKey;
  route.body_limit_bytes = body_bytes;
  route.handle = std::move(handle);
  route.refuse = refuse;
  return route;
}

Handle AnswersAs(ChatRoutes* chat, std::shared_ptr<const Dialect> dialect) {
  return [chat, dialect](net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
    chat->Answer(dialect, std::move(request), std::move(responder));
  };
}

// What Ollama does and weft does not: 501 with a sentence.
Route NotDone(std::string method, std::string path, std::string instead) {
  const std::string sentence = "weft has no " + path + ": " + std::move(instead);
  return RouteOf(
      std::move(method), std::move(path), kSmallBodyBytes, OllamaErrorResponse,
      [sentence](const net::HttpRequest&, const std::shared_ptr<net::Responder>& responder) {
        responder->Send(OllamaErrorResponse({501, sentence}));
      });
}

void AnswerShow(const api::OllamaModel& model, const net::HttpRequest& request,
                net::Responder& responder) {
  auto asked = api::ParseOllamaShow(AsBytes(request.body));
  if (const auto* error = std::get_if<api::ApiError>(&asked))
    return responder.Send(OllamaErrorResponse(*error));
  const std::string& name = std::get<std::string>(asked);
  if (!api::IsServed(name, model.name))
    return responder.Send(OllamaErrorResponse(api::NoSuchModel(name, model.name)));
  responder.Send(JsonResponse(200, api::OllamaShowJson(model)));
}

}  // namespace

api::OllamaHeld HeldOf(const api::OllamaModel& model, const SwarmHost& host) {
  api::OllamaHeld held{&model};
  if (!host.is_up()) return held;
  const swarm::Snapshot snapshot = host.snapshot();
  for (const swarm::WorkerSnapshot& worker : snapshot.workers) {
    if (worker.state != swarm::WorkerState::kActive) continue;
    held.held_bytes += worker.used_bytes;
    if (worker.engine.find("webgpu") != std::string::npos) held.gpu_bytes += worker.used_bytes;
  }
  return held;
}

std::vector<Route> AnthropicRoutes(ChatRoutes* chat, size_t body_bytes) {
  return {RouteOf("POST", "/v1/messages", body_bytes, AnthropicErrorResponse,
                  AnswersAs(chat, std::make_shared<AnthropicDialect>())),
          RouteOf("POST", "/v1/messages/count_tokens", body_bytes, AnthropicErrorResponse,
                  AnswersAs(chat, std::make_shared<AnthropicCountDialect>()))};
}

std::vector<Route> ModelRoutes(ChatRoutes* chat) {
  using Client = std::shared_ptr<net::Responder>;
  return {RouteOf("GET", "/v1/models", 0, ErrorResponse,
                  [chat](const net::HttpRequest& request, const Client& client) {
                    if (!IsOfAnthropic(request)) return chat->ListModels(*client);
                    const api::ServedModel served = chat->Served();
                    client->Send(AnthropicModels({&served, 1}));
                  }),
          RouteOf("GET", "/v1/models/*", 0, ErrorResponse,
                  [chat](const net::HttpRequest& request, const Client& client) {
                    if (!IsOfAnthropic(request)) return chat->DescribeModel(request, *client);
                    const std::string_view head = "/v1/models/";
                    client->Send(AnthropicModel(chat->Served(), request.path.substr(head.size())));
                  })};
}

std::vector<Route> OllamaRoutes(ChatRoutes* chat, size_t body_bytes) {
  using Kind = OllamaDialect::Kind;
  const std::string by_hand = "'weft pull', 'weft list' and 'weft rm' look after models.";
  return {RouteOf("POST", "/api/chat", body_bytes, OllamaErrorResponse,
                  AnswersAs(chat, std::make_shared<OllamaDialect>(Kind::kChat))),
          RouteOf("POST", "/api/generate", body_bytes, OllamaErrorResponse,
                  AnswersAs(chat, std::make_shared<OllamaDialect>(Kind::kGenerate))),
          RouteOf("GET", "/api/version", 0, OllamaErrorResponse,
                  [](const net::HttpRequest&, const std::shared_ptr<net::Responder>& responder) {
                    responder->Send(JsonResponse(
                        200, json::serialize(json::object{{"version", kOllamaVersion},
                                                          {"weft", wire::kServerVersion}})));
                  }),
          NotDone("POST", "/api/pull", by_hand),
          NotDone("POST", "/api/push", by_hand),
          NotDone("POST", "/api/create", by_hand),
          NotDone("POST", "/api/copy", by_hand),
          NotDone("DELETE", "/api/delete", by_hand)};
}

std::vector<Route> OllamaModelRoutes(const api::OllamaModel* model, const SwarmHost* host) {
  using Client = std::shared_ptr<net::Responder>;
  return {RouteOf("GET", "/api/tags", 0, OllamaErrorResponse,
                  [model](const net::HttpRequest&, const Client& client) {
                    client->Send(JsonResponse(200, api::OllamaTagsJson({model, 1})));
                  }),
          RouteOf("POST", "/api/show", kSmallBodyBytes, OllamaErrorResponse,
                  [model](const net::HttpRequest& request, const Client& client) {
                    AnswerShow(*model, request, *client);
                  }),
          RouteOf("GET", "/api/ps", 0, OllamaErrorResponse,
                  [model, host](const net::HttpRequest&, const Client& client) {
                    const api::OllamaHeld held = HeldOf(*model, *host);
                    client->Send(JsonResponse(200, api::OllamaPsJson({&held, 1})));
                  })};
}

}  // namespace weft::server
