#include "server/model_routes.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "api/ollama_request.h"
#include "server/anthropic_answers.h"
#include "server/device_list.h"
#include "server/health_routes.h"
#include "server/metrics.h"
#include "server/model_field.h"
#include "server/ollama_answers.h"
#include "server/parked_sockets.h"
#include "server/responses.h"
#include "server/worker_socket.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Request = net::HttpRequest;
using Client = std::shared_ptr<net::Responder>;
using Handle = std::function<void(Request, Client)>;
using Loaded = std::shared_ptr<Models::Loaded>;

// What a model computes: its body names the model.
bool IsAsked(const Route& route) {
  static constexpr std::string_view kPaths[] = {
      "/v1/chat/completions", "/v1/completions", "/v1/messages",   "/v1/messages/count_tokens",
      "/v1/responses",        "/v1/embeddings",  "/api/chat",      "/v1/responses/input_tokens",
      "/api/generate",        "/api/embed",      "/api/embeddings"};
  if (route.path == "/v1/prefixes/*") return route.method == "PUT";
  return route.method == "POST" &&
         std::find(std::begin(kPaths), std::end(kPaths), route.path) != std::end(kPaths);
}

// What is asked of a model that is loaded, which a query may name.
bool IsOfLoaded(const Route& route) {
  return route.path.starts_with("/v1/prefixes") || route.path == "/api/swarm/what-if" ||
         route.path == "/api/swarm/consent";
}

Loaded LoadedOf(const Models& models, const Request& request) {
  const std::string asked = request.QueryValue("model");
  return asked.empty() ? models.Current() : models.FindLoaded(models.NameOf(asked));
}

api::ApiError NotLoaded(const Request& request) {
  const std::string asked = request.QueryValue("model");
  return {404,
          asked.empty() ? "No model is loaded. Ask one, and it will be."
                        : "The model '" + asked.substr(0, 200) + "' is not loaded.",
          "invalid_request_error", "model", "model_not_loaded"};
}

void AnswerShow(Models& models, const Request& request, const Client& client) {
  const auto asked = api::ParseOllamaShow(AsBytes(request.body));
  if (const auto* error = std::get_if<api::ApiError>(&asked))
    return client->Send(OllamaErrorResponse(*error));
  const std::string name = models.NameOf(std::get<std::string>(asked));
  for (const api::OllamaModel& model : models.OllamaModels())
    if (model.name == name) return client->Send(JsonResponse(200, api::OllamaShowJson(model)));
  client->Send(OllamaErrorResponse(api::NoSuchModel(std::get<std::string>(asked), models.Names())));
}

void AnswerModel(Models& models, const Request& request, const Client& client) {
  const std::string asked = request.path.substr(std::string_view("/v1/models/").size());
  const std::string name = models.NameOf(asked);
  for (const api::ServedModel& model : models.Served()) {
    if (model.name != name) continue;
    if (IsOfAnthropic(request)) return client->Send(AnthropicModel(model, model.name));
    return client->Send(JsonResponse(200, api::ModelJson(model)));
  }
  const api::ApiError error = api::NoSuchModel(asked, models.Names());
  client->Send(IsOfAnthropic(request) ? AnthropicErrorResponse(error) : ErrorResponse(error));
}

void AnswerMetrics(const Models& models, const KeyTable& keys, const Client& client) {
  MetricFamilies families;
  for (const auto& [name, loaded] : models.loaded()) {
    MetricFamilies of_model;
    AddSwarmMetrics(of_model, loaded->cell->host());
    if (const ClusteredGenerator* clustered = loaded->cell->clustered())
      AddMoveMetrics(of_model, clustered->counts());
    AddLabelled(families, std::move(of_model), "model", name);
  }
  AddKeyMetrics(families, keys);
  client->Send(MetricsResponse(families));
}

// A device that helps one of the models.
void AnswerHelperState(const Models& models, const Request& request, const Client& client) {
  const std::string name = request.QueryValue("name");
  swarm::Snapshot found;
  for (const auto& [model, loaded] : models.loaded()) {
    swarm::Snapshot snapshot = loaded->cell->host().snapshot();
    const bool is_here = std::ranges::any_of(
        snapshot.workers, [&](const auto& worker) { return worker.name == name; });
    if (is_here) found = std::move(snapshot);
  }
  client->Send(JsonResponse(200, api::HelperJson(found, name)));
}

// The package that a device asks for by its digest, or the one that has the blob. Devices of
// servers with one model name none.
Loaded PackageOf(const Models& models, const Request& request) {
  const std::string digest = request.QueryValue("package");
  if (!digest.empty()) return models.FindPackage(digest);
  constexpr std::string_view kBlobs = "/package/blobs/";
  if (request.path.starts_with(kBlobs)) {
    const std::string blob = request.path.substr(kBlobs.size());
    for (const auto& [name, loaded] : models.loaded())
      if (loaded->cell->HasBlob(blob)) return loaded;
  }
  return models.Current();
}

// Keeps the model for as long as the answer is under way.
Client KeepingWith(const Loaded& loaded, Client client) {
  const auto held = std::make_shared<std::pair<Loaded, Client>>(loaded, std::move(client));
  return {held, held->second.get()};
}

// The model that a device comes for: the one that it names; or the one that it helped last, which
// counts on what it holds; or the one that needs it most.
Loaded WantedOf(const Models& models, const ParkedSockets::Parked& worker) {
  if (worker.cell) return models.FindNumber(*worker.cell);
  Loaded helped = worker.swarm.empty() ? nullptr : models.FindSwarm(worker.swarm);
  return helped ? helped : models.Neediest();
}

// A device that comes before its model is loaded waits for a moment.
net::WebSocketCallbacks ConnectWorker(const Models& models, ParkedSockets& parked,
                                      const Request& request, bool is_owner,
                                      std::shared_ptr<net::WebSocket> socket) {
  ParkedSockets::Parked worker{request.remote_address, is_owner, CellNumber(request),
                               std::move(socket), request.QueryValue("swarm")};
  if (const Loaded loaded = WantedOf(models, worker)) return loaded->TakeWorker(worker);
  return parked.Park(std::move(worker));
}

void AttachParked(const Models& models, ParkedSockets& parked) {
  parked.AttachAll(
      [&](const ParkedSockets::Parked& each) -> std::optional<net::WebSocketCallbacks> {
        const Loaded loaded = WantedOf(models, each);
        if (!loaded) return std::nullopt;
        return loaded->TakeWorker(each);
      });
}

// A server without a loaded model is ready: it loads what is asked. With several it is ready when
// one of them is; a probe may name another one.
std::optional<NotReady> FindNotReadyOf(const Models& models, const Request& request) {
  if (models.is_ending()) return FindNotReady(swarm::SwarmState::kUp, true);
  const std::string asked = request.QueryValue("model");
  if (!asked.empty() && models.NameOf(asked).empty())
    return NotReady{"down", "The server has no model of this name."};
  std::optional<NotReady> problem;
  for (const auto& [name, loaded] : models.loaded()) {
    if (!asked.empty() && name != models.NameOf(asked)) continue;
    problem = loaded->FindReasonNotReady();
    if (!problem) return std::nullopt;
  }
  return problem;
}

// What answers in place of the one cell's own route; by method and path.
std::map<std::string, Handle> OwnHandles(Models& models, const RouteParts& parts) {
  std::map<std::string, Handle> own;
  Models* const all = &models;
  own["GET /v1/models"] = [all](const Request& request, const Client& client) {
    const std::vector<api::ServedModel> served = all->Served();
    client->Send(IsOfAnthropic(request) ? AnthropicModels(served)
                                        : JsonResponse(200, api::ModelsJson(served)));
  };
  own["GET /v1/models/*"] = [all](const Request& request, const Client& client) {
    AnswerModel(*all, request, client);
  };
  own["GET /api/tags"] = [all](const Request&, const Client& client) {
    client->Send(JsonResponse(200, api::OllamaTagsJson(all->OllamaModels())));
  };
  own["POST /api/show"] = [all](const Request& request, const Client& client) {
    AnswerShow(*all, request, client);
  };
  own["GET /api/ps"] = [all](const Request&, const Client& client) {
    client->Send(JsonResponse(200, api::OllamaPsJson(all->OllamaHeldNow())));
  };
  own["GET /metrics"] = [all, keys = parts.keys](const Request&, const Client& client) {
    AnswerMetrics(*all, keys->table(), client);
  };
  own["GET /worker/state"] = [all](const Request& request, const Client& client) {
    AnswerHelperState(*all, request, client);
  };
  own["GET /package/*"] = [all](const Request& request, const Client& client) {
    const Loaded loaded = PackageOf(*all, request);
    if (!loaded) return client->Send(ErrorResponse(NotLoaded(request)));
    loaded->cell->package_routes().Answer(request, KeepingWith(loaded, client));
  };
  own["GET /api/swarm"] = [all, feed = parts.feed](const Request& request, const Client& client) {
    if (request.QueryValue("model").empty()) return feed->AnswerOnce(*client);
    const Loaded loaded = LoadedOf(*all, request);
    if (!loaded) return client->Send(ErrorResponse(NotLoaded(request)));
    client->Send(
        JsonResponse(200, api::SwarmJson(loaded->cell->host().snapshot(), loaded->cell->card())));
  };
  own["GET /api/swarm/events"] = [feed = parts.feed](const Request&, Client client) {
    feed->Subscribe(std::move(client));
  };
  own["GET /api/swarm/history"] = [feed = parts.feed](const Request&, const Client& client) {
    feed->AnswerHistory(*client);
  };
  const auto health =
      HealthRoutes([all](const Request& request) { return FindNotReadyOf(*all, request); });
  for (const Route& route : health) own["GET " + route.path] = route.handle;
  return own;
}

Handle OfLoaded(Models& models, size_t route) {
  return [all = &models, route](Request request, Client client) {
    const Loaded loaded = LoadedOf(*all, request);
    if (!loaded) return client->Send(ErrorResponse(NotLoaded(request)));
    loaded->routes[route].handle(std::move(request), KeepingWith(loaded, std::move(client)));
  };
}

}  // namespace

std::string ModelOf(const Models& models, const net::HttpRequest& request) {
  const std::string asked = FindModelField(request.body);
  const std::string name = models.NameOf(asked);
  return name.empty() ? asked : name;
}

std::vector<Route> SeveralModelsRoutes(net::EventLoop& loop, Models& models,
                                       const RouteParts& parts) {
  const auto parked = std::make_shared<ParkedSockets>(loop);
  const auto devices = std::make_shared<DeviceList>(loop, models, *parts.evictions);
  models.OnLoadedChanged([all = &models, parked, devices] {
    AttachParked(*all, *parked);
    devices->Changed();
  });
  const std::map<std::string, Handle> own = OwnHandles(models, parts);
  std::vector<Route> routes = CellRoutes(parts);
  for (size_t i = 0; i < routes.size(); ++i) {
    Route& route = routes[i];
    const auto found = own.find(route.method + " " + route.path);
    if (found != own.end()) {
      route.handle = found->second;
    } else if (IsAsked(route)) {
      route.handle = [all = &models, i](Request request, Client client) {
        const std::string asked = FindModelField(request.body);
        all->Answer(i, asked, std::move(request), std::move(client));
      };
    } else if (IsOfLoaded(route)) {
      route.handle = OfLoaded(models, i);
    }
    if (route.path != "/worker") continue;
    route.admit = [all = &models](const Request& request) {
      return AdmitWorker(request, [all](uint32_t number) {
        // A server that has just started may load it in a moment.
        return all->FindNumber(number) != nullptr || all->loaded().empty();
      });
    };
    route.connect = [all = &models, parked](const Request& request, bool is_owner,
                                            std::shared_ptr<net::WebSocket> socket) {
      return ConnectWorker(*all, *parked, request, is_owner, std::move(socket));
    };
  }
  routes.push_back(GetRoute("/worker/cells", Secret::kJoinToken,
                            [devices](const Request& request, Client client) {
                              devices->Answer(request, std::move(client));
                            }));
  for (Route& route : ServerRoutes(parts)) routes.push_back(std::move(route));
  return routes;
}

}  // namespace weft::server
