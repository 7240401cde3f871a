#include "server/health_routes.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <optional>
#include <string>

#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Request = net::HttpRequest;
using Client = std::shared_ptr<net::Responder>;

void AnswerOk(net::Responder& client) {
  net::HttpResponse response = net::TextResponse(200, "text/plain; charset=utf-8", "ok\n");
  response.headers.emplace_back("Cache-Control", "no-store");
  client.Send(std::move(response));
}

void AnswerLiveness(const Request&, const Client& client) {
  AnswerOk(*client);
}

void AnswerReadiness(const std::optional<NotReady>& problem, net::Responder& client) {
  if (!problem) return AnswerOk(client);
  client.Send(JsonResponse(503, json::serialize(json::object{{"status", "unavailable"},
                                                             {"state", problem->state},
                                                             {"reason", problem->reason}})));
}

// As llama.cpp's server says it.
void AnswerHealth(const std::optional<NotReady>& problem, net::Responder& client) {
  if (!problem)
    return client.Send(JsonResponse(200, json::serialize(json::object{{"status", "ok"}})));
  const json::object error = {
      {"code", 503}, {"message", problem->reason}, {"type", "unavailable_error"}};
  client.Send(JsonResponse(503, json::serialize(json::object{{"error", error}})));
}

// Probes of proxies come without a Host.
Route Probe(std::string path, std::function<void(Request, Client)> handle) {
  return {"GET", std::move(path), Secret::kNone, 0, std::move(handle), nullptr, nullptr, true};
}

}  // namespace

// A picture of the swarm is only taken while there is something to say.
std::optional<NotReady> FindNotReady(const SwarmHost& host) {
  const auto state = host.is_up() ? swarm::SwarmState::kUp : host.snapshot().state;
  return FindNotReady(state, host.is_ending());
}

std::optional<NotReady> FindNotReady(swarm::SwarmState state, bool is_ending) {
  if (is_ending) return NotReady{"stopping", "The server is stopping."};
  switch (state) {
    case swarm::SwarmState::kUp:
      return std::nullopt;
    case swarm::SwarmState::kPreparing:
      return NotReady{"preparing", "Devices are loading the model."};
    case swarm::SwarmState::kRepairing:
      return NotReady{"repairing", "A device has gone and its layers are being replaced."};
    case swarm::SwarmState::kDown:
      break;
  }
  return NotReady{"down", "No devices hold the whole model together."};
}

std::vector<Route> HealthRoutes(std::function<std::optional<NotReady>(const Request&)> find) {
  return {Probe("/healthz", AnswerLiveness),
          Probe("/readyz", [find](const Request& probe,
                                  const Client& client) { AnswerReadiness(find(probe), *client); }),
          Probe("/health", [find](const Request& probe, const Client& client) {
            AnswerHealth(find(probe), *client);
          })};
}

std::vector<Route> HealthRoutes(const SwarmHost* host) {
  return HealthRoutes([host](const Request&) { return FindNotReady(*host); });
}

}  // namespace weft::server
