#include "server/web_server.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <charconv>

#include "api/openai_response.h"
#include "base/log.h"
#include "base/random.h"
#include "server/worker_socket.h"
#include "wire/version.h"

namespace weft::server {
namespace json = boost::json;

namespace {

constexpr size_t kProbeBlockBytes = 1 << 20;
constexpr uint64_t kMaxProbeBytes = 64 << 20;

net::HttpResponse Refusal(int status, const std::string& message, const std::string& code) {
  api::ApiError error{status, message, "invalid_request_error", "", code};
  return net::TextResponse(status, "application/json", api::ErrorJson(error));
}

net::HttpResponse Json(const json::object& object) {
  net::HttpResponse response = net::TextResponse(200, "application/json", json::serialize(object));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

}  // namespace

WeftServer::WeftServer(Parts parts) : parts_(std::move(parts)) {
  std::vector<uint8_t> random(kProbeBlockBytes);
  SecureRandomBytes(random);
  probe_block_ = Slice(std::move(random));
}

void WeftServer::OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
  if (auto refusal = CheckHostAndOrigin(parts_.access, request)) {
    return responder->Send(std::move(*refusal));
  }
  const std::string& path = request.path;
  if (request.method == "OPTIONS") {
    net::HttpResponse response;
    response.status = 204;
    response.headers = CorsHeaders(parts_.access, request);
    return responder->Send(std::move(response));
  }
  if (path == "/healthz") return responder->Send(net::TextResponse(200, "text/plain", "ok\n"));
  const bool is_api = path.starts_with("/v1/") || path.starts_with("/api/") || path == "/metrics";
  const bool is_package = path.starts_with("/package/") || path == "/probe";
  if (is_api && !HasSecret(parts_.access, request, {Secret::kApiKey})) {
    return responder->Send(Refusal(
        401,
        "This server wants its API key as 'Authorization: Bearer <key>'; 'weft serve' printed it.",
        "invalid_api_key"));
  }
  if (is_package && !HasSecret(parts_.access, request, {Secret::kJoinToken, Secret::kApiKey})) {
    return responder->Send(Refusal(401,
                                   "This swarm wants its join token as 'Authorization: Bearer "
                                   "<token>'; the join link carries it.",
                                   "invalid_join_token"));
  }
  if (is_api) return AnswerApi(request, std::move(responder));
  if (request.method != "GET" && request.method != "HEAD") {
    return responder->Send(Refusal(405, "Use GET for " + path + ".", ""));
  }
  if (path == "/probe") return AnswerProbe(request, *responder);
  if (is_package) return parts_.package->Answer(request, std::move(responder));
  if (parts_.files) {
    if (auto response = parts_.files->Answer(request)) return responder->Send(std::move(*response));
  }
  responder->Send(Refusal(404, "There is nothing at " + path.substr(0, 200) + ".", "not_found"));
}

void WeftServer::AnswerApi(const net::HttpRequest& request,
                           std::shared_ptr<net::Responder> responder) {
  const net::Headers cors = CorsHeaders(parts_.access, request);
  if (parts_.chat->Answer(request, responder, cors)) return;
  if (request.method != "GET") {
    return responder->Send(Refusal(405, "Use GET for " + request.path + ".", ""));
  }
  if (request.path == "/api/swarm") return parts_.feed->AnswerOnce(*responder, cors);
  if (request.path == "/api/swarm/events")
    return parts_.feed->Subscribe(std::move(responder), cors);
  if (request.path == "/api/share") {
    const ShareInfo& share = parts_.share;
    return responder->Send(
        Json({{"chat_url", share.chat_url},
              {"join_url", share.join_url},
              {"qr_svg", share.qr_svg.empty() ? json::value(nullptr) : json::value(share.qr_svg)},
              {"lan", share.lan}}));
  }
  if (request.path == "/api/info") {
    return responder->Send(
        Json({{"version", wire::kServerVersion}, {"protocol_version", wire::kProtocolVersion}}));
  }
  if (request.path == "/metrics") {
    return responder->Send(net::TextResponse(200, "text/plain; version=0.0.4", MetricsText()));
  }
  responder->Send(
      Refusal(404, "There is nothing at " + request.path.substr(0, 200) + ".", "not_found"));
}

void WeftServer::AnswerProbe(const net::HttpRequest& request, net::Responder& responder) {
  const std::string text = request.QueryValue("bytes");
  uint64_t byte_count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), byte_count);
  if (error != std::errc() || end != text.data() + text.size() || byte_count > kMaxProbeBytes) {
    return responder.Send(
        Refusal(400, "'bytes' must be a number up to " + std::to_string(kMaxProbeBytes) + ".", ""));
  }
  net::HttpResponse response;
  response.headers = {{"Content-Type", "application/octet-stream"},
                      {"Cache-Control", "no-store"},
                      {"Cross-Origin-Resource-Policy", "same-origin"}};
  while (byte_count > 0) {
    const size_t piece = std::min<uint64_t>(byte_count, kProbeBlockBytes);
    response.body.push_back(probe_block_.Sub(0, piece));
    byte_count -= piece;
  }
  responder.Send(std::move(response));
}

std::string WeftServer::MetricsText() const {
  const HostCounters& counters = parts_.host->counters();
  const swarm::Snapshot snapshot = parts_.host->snapshot();
  std::string text;
  const auto add = [&](const char* name, const char* kind, const char* help, double value) {
    text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + kind + "\n" +
            name + " " + std::to_string(value) + "\n";
  };
  add("weft_core_seconds_total", "counter", "Time inside the orchestrator's core",
      counters.core_time.seconds());
  add("weft_core_events_total", "counter", "Events handled by the core",
      static_cast<double>(counters.events));
  add("weft_frames_sent_total", "counter", "Step frames sent",
      static_cast<double>(counters.frames_sent));
  add("weft_frames_received_total", "counter", "Result frames received",
      static_cast<double>(counters.frames_received));
  add("weft_frame_bytes_sent_total", "counter", "Bytes of step frames",
      static_cast<double>(counters.bytes_sent));
  add("weft_frame_bytes_received_total", "counter", "Bytes of result frames",
      static_cast<double>(counters.bytes_received));
  add("weft_generated_tokens_total", "counter", "Tokens generated",
      static_cast<double>(snapshot.generated_tokens));
  add("weft_requests_completed_total", "counter", "Requests that ended well",
      static_cast<double>(snapshot.completed_requests));
  add("weft_requests_failed_total", "counter", "Requests that ended with an error",
      static_cast<double>(snapshot.failed_requests));
  add("weft_workers", "gauge", "Connected workers", static_cast<double>(snapshot.workers.size()));
  add("weft_up", "gauge", "1 when a full plan serves",
      snapshot.state == swarm::SwarmState::kUp ? 1 : 0);
  add("weft_predicted_us_per_token", "gauge", "The plan's time per token",
      snapshot.predicted_us_per_token);
  add("weft_measured_us_per_token", "gauge", "The measured time per token",
      snapshot.measured_us_per_token);
  return text;
}

bool WeftServer::OnHandshake(const net::HttpRequest& request, net::HttpResponse* refusal) {
  if (auto refused = CheckHostAndOrigin(parts_.access, request)) {
    *refusal = std::move(*refused);
    return false;
  }
  if (request.path != "/worker") {
    *refusal = Refusal(404, "Workers connect to /worker.", "not_found");
    return false;
  }
  const bool from_page = !request.Header("origin").empty();
  if (from_page && !request.over_tls && !request.remote_is_loopback) {
    *refusal = Refusal(
        403,
        "A page on another device cannot help over plain http: browsers give it no "
        "WebGPU, no hashing and no cache there. Use the https address of 'weft serve --share'.",
        "insecure_context");
    return false;
  }
  return true;
}

net::HttpResponse WeftServer::MakeError(int status, const std::string& sentence) {
  return Refusal(status, sentence, "");
}

net::WebSocketCallbacks WeftServer::OnWebSocket(const net::HttpRequest& request,
                                                std::shared_ptr<net::WebSocket> socket) {
  return AttachWorkerSocket(*parts_.host, request.remote_address, socket);
}

}  // namespace weft::server
