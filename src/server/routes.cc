#include "server/routes.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <memory>
#include <optional>
#include <utility>

#include "base/random.h"
#include "net/tls.h"
#include "server/dialect_routes.h"
#include "server/health_routes.h"
#include "server/key_routes.h"
#include "server/metrics.h"
#include "server/responses.h"
#include "server/responses_routes.h"
#include "server/worker_socket.h"
#include "wire/version.h"

namespace weft::server {
namespace json = boost::json;

namespace {

using Request = net::HttpRequest;
using Client = std::shared_ptr<net::Responder>;

constexpr size_t kConsentBodyBytes = 1024;
constexpr size_t kProbeBlockBytes = 1 << 20;
constexpr uint64_t kMaxProbeBytes = 64 << 20;

// One of the API that has something computed.
Route Ask(std::string path, ChatRoutes* chat, void (ChatRoutes::*answer)(Request, Client),
          size_t body_bytes) {
  const auto handle = [chat, answer](Request request, Client client) {
    (chat->*answer)(std::move(request), std::move(client));
  };
  return {"POST", std::move(path), Secret::kApiKey, body_bytes, handle, nullptr, nullptr};
}

void AnswerInfo(const Request&, const Client& client) {
  client->Send(JsonResponse(
      200, json::serialize(json::object{{"version", wire::kServerVersion},
                                        {"protocol_version", wire::kProtocolVersion}})));
}

void AnswerUpgradeRequired(const Request&, const Client& client) {
  auto response = ErrorResponse({426, "Workers connect here with a WebSocket.",
                                 "invalid_request_error", "", "upgrade_required"});
  response.headers.emplace_back("Upgrade", "websocket");
  client->Send(std::move(response));
}

// Bytes that no compression shortens; `block` is sent again and again.
void AnswerProbe(const Slice& block, const Request& request, const Client& client) {
  const std::string text = request.QueryValue("bytes");
  uint64_t byte_count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), byte_count);
  if (error != std::errc() || end != text.data() + text.size() || byte_count > kMaxProbeBytes) {
    return client->Send(ErrorResponse(
        {400, "'bytes' must be a number up to " + std::to_string(kMaxProbeBytes) + ".",
         "invalid_request_error", "bytes", ""}));
  }
  net::HttpResponse response;
  response.headers = {{"Content-Type", "application/octet-stream"}, {"Cache-Control", "no-store"}};
  while (byte_count > 0) {
    const size_t piece = std::min<uint64_t>(byte_count, block.byte_count());
    response.body.push_back(block.Sub(0, piece));
    byte_count -= piece;
  }
  client->Send(std::move(response));
}

// {"worker": 3, "allow": true}: of a device that wants to compute the whole model.
void AnswerConsent(SwarmHost& host, const Request& request, net::Responder& client) {
  boost::system::error_code failed;
  const json::value body = json::parse(request.body, failed);
  const json::object* fields = failed ? nullptr : body.if_object();
  const json::value* worker = fields != nullptr ? fields->if_contains("worker") : nullptr;
  const json::value* allow = fields != nullptr ? fields->if_contains("allow") : nullptr;
  if (worker == nullptr || allow == nullptr || !worker->is_int64() || !allow->is_bool()) {
    return client.Send(ErrorResponse(
        {400, "Expected {\"worker\": its number in /api/swarm, \"allow\": true or false}.",
         "invalid_request_error", "worker", ""}));
  }
  const swarm::WorkerId id(static_cast<uint64_t>(worker->get_int64()));
  const auto asked = host.snapshot().consents;
  const bool is_asked =
      std::any_of(asked.begin(), asked.end(), [id](const auto& each) { return each.worker == id; });
  if (!is_asked) {
    return client.Send(ErrorResponse({404,
                                      "No device with this number waits for consent: it has its "
                                      "answer already, or its time is over.",
                                      "invalid_request_error", "worker", "not_found"}));
  }
  host.Consent(id, allow->get_bool());
  client.Send(JsonResponse(200, json::serialize(json::object{{"allowed", allow->get_bool()}})));
}

void AnswerAuthority(const net::TlsContext* tls, net::Responder& client) {
  if (tls == nullptr || net::CertificateAuthority(*tls).empty()) {
    return client.Send(ErrorResponse(
        {404, "This server has no certificate of its own making: there is nothing to install.",
         "invalid_request_error", "", "not_found"}));
  }
  net::HttpResponse response;
  response.headers = {{"Content-Type", "application/x-x509-ca-cert"},
                      {"Content-Disposition", "attachment; filename=\"weft-swarm.crt\""},
                      {"Cache-Control", "no-store"}};
  response.body.push_back(Slice::OfText(net::CertificateAuthority(*tls)));
  client.Send(std::move(response));
}

Slice RandomBlock() {
  std::vector<uint8_t> random(kProbeBlockBytes);
  SecureRandomBytes(random);
  return Slice(std::move(random));
}

// Beginnings of chats that are kept by name.
std::vector<Route> PrefixRoutes(ChatRoutes* chat, size_t body_bytes) {
  return {GetRoute("/v1/prefixes", Secret::kApiKey,
                   [chat](const Request& request, const Client& client) {
                     chat->ListPrefixes(request, *client);
                   }),
          {"PUT", "/v1/prefixes/*", Secret::kApiKey, body_bytes,
           [chat](Request request, Client client) {
             chat->KeepPrefix(std::move(request), std::move(client));
           },
           nullptr, nullptr},
          {"DELETE", "/v1/prefixes/*", Secret::kApiKey, 0,
           [chat](const Request& request, const Client& client) {
             chat->ForgetPrefix(request, *client);
           },
           nullptr, nullptr}};
}

std::vector<Route> HealthRoutesOf(const RouteParts& parts) {
  if (!parts.find_not_ready) return HealthRoutes(parts.host);
  return HealthRoutes([find = parts.find_not_ready](const Request&) { return find(); });
}

// The picture of the swarm, its history, and what its owner says to it.
std::vector<Route> SwarmRoutes(const RouteParts& parts) {
  return {
      GetRoute(
          "/api/swarm", Secret::kApiKey,
          [feed = parts.feed](const Request&, const Client& client) { feed->AnswerOnce(*client); }),
      GetRoute("/api/swarm/events", Secret::kApiKey,
               [feed = parts.feed](const Request&, Client client) {
                 feed->Subscribe(std::move(client));
               }),
      GetRoute("/api/swarm/history", Secret::kApiKey,
               [feed = parts.feed](const Request&, const Client& client) {
                 feed->AnswerHistory(*client);
               }),
      GetRoute("/api/swarm/what-if", Secret::kApiKey,
               [what_if = parts.what_if](const Request& request, Client client) {
                 what_if->Answer(request, std::move(client));
               }),
      {"POST", "/api/swarm/consent", Secret::kAdmin, kConsentBodyBytes,
       [host = parts.host](const Request& request, const Client& client) {
         AnswerConsent(*host, request, *client);
       },
       nullptr, nullptr},
  };
}

}  // namespace

Route GetRoute(std::string path, Secret secret, std::function<void(Request, Client)> handle) {
  return {"GET", std::move(path), secret, 0, std::move(handle), nullptr, nullptr};
}

std::optional<api::ApiError> AdmitWorker(const net::HttpRequest& request) {
  const bool from_page = !request.Header("origin").empty();
  if (!from_page || request.over_tls || request.remote_is_loopback) return std::nullopt;
  return api::ApiError{
      403,
      "A page on another device cannot help over plain http: browsers give it no "
      "WebGPU, no hashing and no cache there. Use the https address of 'weft serve --share'.",
      "invalid_request_error", "", "insecure_context"};
}

std::optional<uint32_t> CellNumber(const Request& request) {
  const std::string text = request.QueryValue("cell");
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<api::ApiError> AdmitWorker(const Request& request,
                                         const std::function<bool(uint32_t)>& has_cell) {
  if (auto refusal = AdmitWorker(request)) return refusal;
  if (request.QueryValue("cell").empty()) return std::nullopt;
  const auto number = CellNumber(request);
  if (number && has_cell(*number)) return std::nullopt;
  return api::ApiError{404, "The model of this 'cell' is not loaded any more.",
                       "invalid_request_error", "cell", "model_not_loaded"};
}

std::vector<Route> CellRoutes(const RouteParts& parts) {
  SwarmHost* const host = parts.host;
  ChatRoutes* const chat = parts.chat;
  const size_t body_bytes = parts.chat_body_bytes;
  std::vector<Route> routes = {
      // OpenAI's API.
      Ask("/v1/chat/completions", chat, &ChatRoutes::Complete, body_bytes),
      Ask("/v1/completions", chat, &ChatRoutes::CompleteText, body_bytes),

      GetRoute("/metrics", Secret::kMetrics,
               [host, clustered = parts.clustered, keys = parts.keys](const Request&,
                                                                      const Client& client) {
                 MetricFamilies families;
                 AddSwarmMetrics(families, *host);
                 if (clustered != nullptr) AddMoveMetrics(families, clustered->counts());
                 AddKeyMetrics(families, keys->table());
                 client->Send(MetricsResponse(families));
               }),

      // Workers: the model's bytes, how they are, and their sockets.
      GetRoute("/package/*", Secret::kJoinToken,
               [package = parts.package](const Request& request, Client client) {
                 package->Answer(request, std::move(client));
               }),
      GetRoute("/worker/state", Secret::kJoinToken,
               [host](const Request& request, const Client& client) {
                 const std::string name = request.QueryValue("name");
                 client->Send(JsonResponse(200, api::HelperJson(host->snapshot(), name)));
               }),
      {"GET", "/worker", Secret::kNone, 0, AnswerUpgradeRequired,
       [admit = parts.admit_worker](const Request& request) {
         return admit ? admit(request) : AdmitWorker(request);
       },
       [host, connect = parts.connect_worker](const Request& request, bool is_owner,
                                              const std::shared_ptr<net::WebSocket>& socket) {
         if (connect) return connect(request, is_owner, socket);
         return AttachWorkerSocket(*host, request.remote_address, is_owner, socket);
       }},
  };
  for (auto& more :
       {SwarmRoutes(parts), ModelRoutes(chat), PrefixRoutes(chat, body_bytes),
        MakeEmbeddingRoutes(parts.embeddings, body_bytes), AnthropicRoutes(chat, body_bytes),
        OllamaRoutes(chat, body_bytes), OllamaModelRoutes(parts.ollama_model, host),
        ResponsesRoutes(chat, body_bytes, parts.responses), HealthRoutesOf(parts)})
    routes.insert(routes.end(), more.begin(), more.end());
  return routes;
}

std::vector<Route> ServerRoutes(const RouteParts& parts) {
  std::vector<Route> routes = {
      GetRoute("/api/info", Secret::kApiKey, AnswerInfo),
      GetRoute("/api/share", Secret::kAdmin,
               [links = parts.links](const Request& request, const Client& client) {
                 client->Send(JsonResponse(200, links->ToJson(request)));
               }),
      // What a phone installs so that it trusts this server.
      GetRoute("/certificate.crt", Secret::kNone,
               [tls = parts.tls](const Request&, const Client& client) {
                 AnswerAuthority(tls, *client);
               }),
      // The measure of a worker's line.
      GetRoute("/probe", Secret::kJoinToken,
               [block = RandomBlock()](const Request& request, const Client& client) {
                 AnswerProbe(block, request, client);
               }),
  };
  for (Route& route : KeyRoutes(parts.keys)) routes.push_back(std::move(route));
  if (parts.files == nullptr) return routes;
  for (const std::string& path : parts.files->Paths()) {
    routes.push_back(GetRoute(path, Secret::kNone,
                              [files = parts.files](const Request& request, const Client& client) {
                                client->Send(files->Answer(request));
                              }));
  }
  return routes;
}

std::vector<Route> MakeRoutes(const RouteParts& parts) {
  std::vector<Route> routes = CellRoutes(parts);
  for (Route& route : ServerRoutes(parts)) routes.push_back(std::move(route));
  return routes;
}

}  // namespace weft::server
