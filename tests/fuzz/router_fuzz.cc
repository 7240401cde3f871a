// Requests as strangers send them, behind the parser of HTTP: hosts, origins, forwarded addresses,
// secrets, ranges and paths. Whatever they say, a request is answered once; who has no business
// here reaches no handler; a range is a part of what there is.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/secret.h"
#include "net/http.h"
#include "net/http_fields.h"
#include "net/web_names.h"
#include "script.h"
#include "server/router.h"
#include "server/static_files.h"

namespace {

using namespace weft;
using server::Secret;

constexpr std::string_view kKey = "key-key-key", kToken = "token-token";
const Slice& Content() {
  static const Slice content = Slice::OfText("0123456789");
  return content;
}

class Recorder : public net::Responder {
 public:
  void Send(net::HttpResponse sent) override {
    ++answers;
    status = sent.status;
    for (const Slice& piece : sent.body) body += AsText(piece.bytes());
    headers = std::move(sent.headers);
  }
  void StartStream(int stream_status, net::Headers stream_headers) override {
    ++answers;
    status = stream_status;
    headers = std::move(stream_headers);
  }
  void Write(std::string chunk) override { body += chunk; }
  void End() override {}
  void OnClosed(std::function<void()> callback) override { callback(); }

  int answers = 0, status = 0;
  net::Headers headers;
  std::string body;
};

class NoSocket : public net::WebSocket {
 public:
  void Send(std::vector<Slice>) override {}
  void Close(std::string, uint16_t) override {}
  void SetMessageLimit(size_t) override {}
  void SetAllowance(std::optional<size_t>) override {}
  void SetReading(bool) override {}
  void SetSilence(Duration) override {}
  std::string remote_address() const override { return ""; }
  size_t queued_bytes() const override { return 0; }
};

struct Reached {
  bool key = false, token = false, socket = false;
  std::string address;
};

std::vector<server::Route> Routes(Reached& reached) {
  const auto serve = [&reached](bool Reached::*what) {
    return [&reached, what](const net::HttpRequest& request,
                            const std::shared_ptr<net::Responder>& client) {
      reached.*what = true;
      reached.address = request.remote_address;
      client->Send(server::RangedResponse(request, Content(), "\"tag\"", "text/plain",
                                          server::Caching::kForever));
    };
  };
  return {
      {"GET", "/v1/models/*", Secret::kApiKey, 0, serve(&Reached::key), nullptr, nullptr},
      {"POST", "/v1/chat", Secret::kApiKey, 10, serve(&Reached::key), nullptr, nullptr},
      {"GET", "/package/*", Secret::kJoinToken, 0, serve(&Reached::token), nullptr, nullptr},
      {"GET", "/stream", Secret::kJoinToken, 0,
       [](const net::HttpRequest&, const std::shared_ptr<net::Responder>& client) {
         client->StartStream(200, {{"Content-Type", "text/event-stream"}});
         client->Write("event");
       },
       nullptr, nullptr},
      {"GET", "/worker", Secret::kNone, 0, serve(&Reached::socket),
       [](const net::HttpRequest&) { return std::optional<api::ApiError>(); },
       [&reached](const net::HttpRequest&, bool, const std::shared_ptr<net::WebSocket>&) {
         reached.socket = true;
         return net::WebSocketCallbacks();
       }},
  };
}

server::AccessPolicy Policy(uint8_t byte) {
  server::AccessPolicy policy;
  policy.allowed_hosts = {"weft.example:8080", "127.0.0.1:8080"};
  policy.allowed_origins = {"https://friend.example"};
  if ((byte & 1) != 0) policy.trusted_proxies = {"10.0.0.1"};
  policy.api_key_hash = HashSecret(kKey);
  policy.join_token_hash = HashSecret(kToken);
  return policy;
}

net::HttpRequest RequestOf(Script& script, uint8_t byte) {
  static constexpr std::string_view kMethods[] = {"GET", "HEAD", "POST", "OPTIONS", "PUT"};
  static constexpr std::string_view kPaths[] = {"/v1/models/a", "/v1/chat", "/package/weft.json",
                                                "/stream", "/worker"};
  static constexpr std::string_view kNames[] = {"host",
                                                "origin",
                                                "sec-fetch-site",
                                                "authorization",
                                                "x-forwarded-for",
                                                "x-forwarded-proto",
                                                "range",
                                                "if-range",
                                                "if-none-match",
                                                "accept-encoding",
                                                "if-match",
                                                "content-encoding",
                                                "content-type",
                                                "access-control-request-method",
                                                "access-control-request-headers",
                                                "x-api-key"};
  net::HttpRequest request;
  request.method = kMethods[script.Byte() % 5];
  const uint8_t path = script.Byte();
  request.path = path < 5 ? std::string(kPaths[path]) : "/" + script.Text();
  request.query = script.Text();
  request.body = script.Text();
  request.remote_address = (byte & 2) != 0 ? "10.0.0.1" : "192.0.2.7";
  if ((byte & 4) != 0) request.headers.emplace_back("host", "weft.example:8080");
  if ((byte & 8) != 0) request.headers.emplace_back("authorization", "Bearer key-key-key");
  if ((byte & 16) != 0) request.headers.emplace_back("authorization", "Bearer token-token");
  for (uint8_t count = script.Byte() % 6; count > 0; --count) {
    const std::string_view name = kNames[script.Byte() % 16];
    request.headers.emplace_back(name, script.Text());
  }
  return request;
}

// The first one counts, X-Api-Key where there is none; nothing else opens what a secret opens.
bool Carries(const net::HttpRequest& request, std::string_view secret) {
  const std::string_view header = request.Header("authorization");
  return net::Trimmed(header.empty() ? request.Header("x-api-key") : header).ends_with(secret);
}

void CheckAnswer(const net::HttpRequest& request, const Recorder& answer, const Reached& reached) {
  CHECK(answer.answers == 1, "a request is answered once");
  CHECK(answer.status >= 200 && answer.status < 600);
  for (const auto& [name, value] : answer.headers)
    CHECK(value.find_first_of("\r\n") == std::string::npos && !name.empty());
  CHECK(!reached.key || Carries(request, kKey), "without the key");
  CHECK(!reached.token || Carries(request, kKey) || Carries(request, kToken), "without a token");
  const auto host = net::CanonicalAuthority(request.Header("host"));
  const bool is_ours = host == "weft.example:8080" || host == "127.0.0.1:8080";
  const bool is_reached = reached.key || reached.token || reached.socket;
  CHECK(!is_reached || is_ours, "for a host that is not ours");
  if (!is_reached) return;
  CHECK(answer.status == 200 || answer.status == 206 || answer.status == 304 ||
        answer.status == 412 || answer.status == 416);
  if (answer.status == 206) {
    CHECK(!answer.body.empty() || request.method == "HEAD");
    CHECK(AsText(Content().bytes()).find(answer.body) != std::string_view::npos);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t byte_count) {
  Script script(data, byte_count);
  Reached reached;
  const uint8_t byte = script.Byte();
  server::Router router(Routes(reached));
  router.SetAccess(Policy(byte));
  for (int turn = 0; turn < 8 && !script.done(); ++turn) {
    const net::HttpRequest request = RequestOf(script, script.Byte());
    reached = {};
    if ((byte & 128) != 0) {
      net::HttpResponse refusal;
      refusal.status = 0;
      if (router.OnHandshake(request, &refusal))
        (void)router.OnWebSocket(request, std::make_shared<NoSocket>());
      else
        CHECK(refusal.status >= 400);
      continue;
    }
    const auto client = std::make_shared<Recorder>();
    router.OnRequest(request, client);
    CheckAnswer(request, *client, reached);
    const bool by_proxy = (byte & 1) != 0 && request.remote_address == "10.0.0.1";
    if (!by_proxy && !reached.address.empty())
      CHECK(reached.address == request.remote_address, "forwarded by nobody who is trusted");
  }
  return 0;
}
