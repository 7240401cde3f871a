#include "server/router.h"

#include <algorithm>
#include <utility>

#include "base/network.h"
#include "net/http_fields.h"
#include "net/limits.h"
#include "server/access_line.h"
#include "server/counted_responder.h"
#include "server/key_table.h"
#include "server/responses.h"

namespace weft::server {
namespace {

// Answers and sockets that a client behind a trusted proxy may have at once: as many as it could
// have connections if it came by itself.
constexpr size_t kPlacesPerForwardedAddress = net::ServerLimits{}.connections_per_address;

// What whoever comes may send, whatever a route takes from those who may use it.
constexpr size_t kStrangersBodyBytes = 1 << 20;

std::string NoPlace() {
  return "Your address has " + std::to_string(kPlacesPerForwardedAddress) +
         " requests and connections under way already, the limit.";
}

bool Matches(const Route& route, std::string_view path) {
  const std::string_view pattern = route.path;
  if (!pattern.ends_with('*')) return path == pattern;
  return path.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool Answers(const Route& route, std::string_view method) {
  return route.method == method || (method == "HEAD" && route.method == "GET");
}

// Whether limits of named keys count it: what users may ask to have computed.
bool IsCounted(const Route& route, std::string_view method) {
  return route.secret == Secret::kApiKey && (method == "POST" || method == "PUT");
}

// "GET, HEAD, OPTIONS"
std::string MethodsOf(const std::vector<const Route*>& routes) {
  std::string methods;
  for (const Route* route : routes) {
    methods += route->method + ", ";
    if (route->method == "GET") methods += "HEAD, ";
  }
  return methods + "OPTIONS";
}

// How errors are said at a path.
auto RefusalsOf(const std::vector<const Route*>& here) {
  return here.empty() ? &ErrorResponse : here.front()->refuse;
}

// Whether a handler can read the body as it came: JSON in UTF-8.
std::optional<api::ApiError> CheckBodyForm(const net::HttpRequest& request) {
  if (request.body.empty()) return std::nullopt;
  const std::string codings = request.HeaderList("content-encoding");
  for (const std::string_view coding : net::ListMembers(codings)) {
    if (net::EqualsIgnoringCase(coding, "identity")) continue;
    return api::ApiError{415,
                         "The body has the Content-Encoding '" + std::string(coding.substr(0, 40)) +
                             "'; send it as it is, without an encoding.",
                         "invalid_request_error", "", "unsupported_encoding"};
  }
  const auto charset = net::MediaTypeParameter(request.Header("content-type"), "charset");
  constexpr std::string_view kUtf8[] = {"utf-8", "utf8", "us-ascii", "ascii"};
  if (!charset || std::find(std::begin(kUtf8), std::end(kUtf8), *charset) != std::end(kUtf8)) {
    return std::nullopt;
  }
  return api::ApiError{415,
                       "The body is said to be in '" + charset->substr(0, 40) +
                           "' (Content-Type); JSON is sent in UTF-8.",
                       "invalid_request_error", "", "unsupported_charset"};
}

// What browsers may do with an answer (SECURITY.md): on every one of them, for an answer that no
// page should ever show is where it matters. `servers`: what pages may connect to beside this one.
void AddSecurityHeaders(net::Headers& headers, const std::string& servers) {
  std::string policy =
      "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data:; "
      "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
  if (!servers.empty()) policy += "; connect-src 'self'" + servers;
  headers.insert(headers.end(),
                 {{"Content-Security-Policy", std::move(policy)},
                  {"Cross-Origin-Opener-Policy", "same-origin"},
                  {"Cross-Origin-Embedder-Policy", "require-corp"},
                  {"Cross-Origin-Resource-Policy", "same-origin"},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"},
                  {"Permissions-Policy", "camera=(), geolocation=(), microphone=()"}});
}

// In the log: the client went away before its answer began, as nginx writes it.
constexpr int kClientClosed = 499;

AccessLine LineOf(const AccessPolicy& access, const net::HttpRequest& request, std::string id) {
  AccessLine line;
  line.request_id = std::move(id);
  line.method = request.method;
  line.path = request.path;
  line.address = request.remote_address;
  if (const store::Key* key = NamedKeyOf(access, request)) line.key = key->name;
  line.begun = MonotonicNow();
  return line;
}

}  // namespace

// One answer that is owed to an address, or one socket of it.
class Router::Place {
 public:
  Place(std::shared_ptr<std::map<std::string, size_t>> taken, const std::string& address)
      : taken_(std::move(taken)), network_(NetworkOf(address)) {
    is_free_ = ++(*taken_)[network_] <= kPlacesPerForwardedAddress;
  }
  ~Place() {
    const auto entry = taken_->find(network_);
    if (--entry->second == 0) taken_->erase(entry);
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool is_free() const { return is_free_; }

 private:
  const std::shared_ptr<std::map<std::string, size_t>> taken_;
  const std::string network_;
  bool is_free_ = false;
};

// The step that all answers share: headers for other origins and for browsers, HEAD without a body,
// and an answer in our form where a handler gave none.
class Router::FinishingResponder : public CountedResponder {
 public:
  FinishingResponder(std::shared_ptr<net::Responder> client, net::Headers cors, bool is_head,
                     const std::string& servers, std::unique_ptr<Place> place, AccessLine line,
                     bool writes_line)
      : client_(std::move(client)),
        servers_(servers),
        cors_(std::move(cors)),
        is_head_(is_head),
        place_(std::move(place)),
        line_(std::move(line)),
        writes_line_(writes_line) {}
  ~FinishingResponder() override {
    if (!answered_)
      Send(ErrorResponse({500, "The server gave no answer.", "server_error", "", "unknown"}));
    // Of a stream that did not come to its end.
    line_.is_cut_off = true;
    WriteLine();
  }

  void SetAdmitted() { line_.is_admitted = true; }
  void CountToken() override {
    if (!line_.first_token) line_.first_token = MonotonicNow() - line_.begun;
  }
  void CountEnd(const std::string& model, uint32_t prompt_tokens,
                uint32_t generated_tokens) override {
    if (line_.model.empty()) line_.prompt_tokens = prompt_tokens;
    line_.model = model;
    line_.generated_tokens += generated_tokens;
  }

  // What every answer from now on has beside its own headers, and what is held until its end.
  void Hold(KeyTable::Admission admission) { admission_ = std::move(admission); }

  // The place is free before the client can know that it has the whole answer.
  void Send(net::HttpResponse response) override {
    answered_ = true;
    Finish(response.headers);
    admission_.place.reset();
    line_.status = *is_gone_ ? kClientClosed : response.status;
    if (!is_head_)
      for (const Slice& piece : response.body) line_.byte_count += piece.byte_count();
    client_->Send(std::move(response));
    WriteLine();
  }
  // HEAD of a stream is over with its headers.
  void StartStream(int status, net::Headers headers) override {
    answered_ = true;
    Finish(headers);
    line_.status = status;
    client_->StartStream(status, std::move(headers));
    if (!is_head_) return;
    client_->End();
    is_over_ = true;
    WriteLine();
    if (on_closed_) std::exchange(on_closed_, nullptr)();
  }
  void Write(std::string chunk) override {
    if (is_over_) return;
    line_.byte_count += chunk.size();
    client_->Write(std::move(chunk));
  }
  void End() override {
    admission_.place.reset();
    if (!is_over_) client_->End();
    WriteLine();
  }
  void OnClosed(std::function<void()> callback) override {
    if (is_over_) return callback();
    if (is_head_) on_closed_ = callback;
    client_->OnClosed([gone = is_gone_, tell = std::move(callback)] {
      *gone = true;
      tell();
    });
  }

 private:
  // Once.
  void WriteLine() {
    if (std::exchange(writes_line_, false)) WriteAccessLine(line_);
  }
  void Finish(net::Headers& headers) const {
    headers.emplace_back("X-Request-Id", line_.request_id);
    headers.insert(headers.end(), cors_.begin(), cors_.end());
    headers.insert(headers.end(), admission_.headers.begin(), admission_.headers.end());
    AddSecurityHeaders(headers, servers_);
  }

  const std::shared_ptr<net::Responder> client_;
  const std::string servers_;
  const net::Headers cors_;
  const bool is_head_;
  const std::unique_ptr<Place> place_;
  KeyTable::Admission admission_;
  AccessLine line_;
  bool writes_line_ = false;
  const std::shared_ptr<bool> is_gone_ = std::make_shared<bool>(false);  // the client
  bool answered_ = false;
  bool is_over_ = false;  // HEAD of a stream: its client has all that it will get
  std::function<void()> on_closed_;
};

Router::~Router() = default;

void Router::LetPagesConnectTo(const std::vector<net::Url>& servers) {
  servers_.clear();
  for (const net::Url& each : servers)
    for (const char* scheme : {"http", "ws"})
      servers_ += std::string(" ") + scheme + (each.tls ? "s://" : "://") + each.Authority();
}

std::vector<const Route*> Router::RoutesAt(std::string_view path) const {
  std::vector<const Route*> found;
  for (const Route& route : routes_) {
    if (Matches(route, path)) found.push_back(&route);
  }
  return found;
}

void Router::OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> client) {
  const std::string peer = request.remote_address;
  UseForwarded(access_, request);
  std::unique_ptr<Place> place;
  if (request.remote_address != peer)
    place = std::make_unique<Place>(taken_, request.remote_address);
  const bool is_free = !place || place->is_free();
  const std::vector<const Route*> here = RoutesAt(request.path);
  const std::string methods = MethodsOf(here);
  const auto refuse = RefusalsOf(here);
  const auto responder = std::make_shared<FinishingResponder>(
      std::move(client), CorsHeaders(access_, request, methods), request.method == "HEAD", servers_,
      std::move(place), LineOf(access_, request, RequestIdOf(request)), logs_requests_);
  if (!is_free) {
    return responder->Send(refuse(OverShare(NoPlace())));
  }
  // Proxies look whether a server lives with requests of HTTP/1.0 without a host.
  const bool may_lack_host =
      request.method == "OPTIONS" || (!here.empty() && here.front()->may_lack_host);
  if (const auto refusal = CheckHostAndOrigin(access_, request, may_lack_host)) {
    return responder->Send(refuse(*refusal));
  }
  if (request.method == "OPTIONS") return AnswerOptions(request, here, *responder);
  if (here.empty()) return responder->Send(refuse(NothingAt(request.path)));
  const auto found = std::find_if(here.begin(), here.end(), [&](const Route* route) {
    return Answers(*route, request.method);
  });
  if (found == here.end()) {
    auto response = refuse({405, "Use " + here.front()->method + " for " + request.path + ".",
                            "invalid_request_error", "", "method_not_allowed"});
    response.headers.emplace_back("Allow", methods);
    return responder->Send(std::move(response));
  }
  const Route& route = **found;
  if (const auto refusal = CheckSecret(access_, request, route.secret)) {
    return responder->Send(refuse(*refusal));
  }
  if (request.body.size() > route.body_limit_bytes) {
    return responder->Send(refuse({413,
                                   "The request's body has " + std::to_string(request.body.size()) +
                                       " bytes; at most " + std::to_string(route.body_limit_bytes) +
                                       " are taken here.",
                                   "invalid_request_error", "", "limit_exceeded"}));
  }
  if (const auto refusal = CheckBodyForm(request)) {
    auto response = refuse(*refusal);
    if (refusal->code == "unsupported_encoding") {
      response.headers.emplace_back("Accept-Encoding", "identity");
    }
    return responder->Send(std::move(response));
  }
  if (!AdmitByKey(route, request, *responder)) return;
  if (route.secret != Secret::kNone) responder->SetAdmitted();
  request.client = ClientOf(access_, request);
  request.salt = SaltOf(access_, request);
  route.handle(std::move(request), responder);
}

bool Router::AdmitByKey(const Route& route, const net::HttpRequest& request,
                        FinishingResponder& responder) {
  const store::Key* key = IsCounted(route, request.method) ? NamedKeyOf(access_, request) : nullptr;
  if (key == nullptr) return true;
  KeyTable::Admission admission =
      access_.keys->Admit(*key, find_model_ ? find_model_(request) : "");
  const std::optional<api::ApiError> refusal = std::move(admission.refusal);
  const int64_t retry_after_s = admission.retry_after_s;
  responder.Hold(std::move(admission));
  if (!refusal) return true;
  net::HttpResponse response = route.refuse(*refusal);
  for (auto& [name, value] : response.headers)
    if (name == "Retry-After" && retry_after_s > 0) value = std::to_string(retry_after_s);
  responder.Send(std::move(response));
  return false;
}

// A page whose preflight failed would be told "network error" in place of what it did wrong.
void Router::AnswerOptions(const net::HttpRequest& request, const std::vector<const Route*>& here,
                           net::Responder& responder) const {
  // Of the root, too, where there is no page: proxies ask it whether the server lives.
  const bool is_server = request.path == "*" || (here.empty() && request.path == "/");
  const std::string methods = is_server ? "GET, HEAD, POST, OPTIONS" : MethodsOf(here);
  if (here.empty() && !is_server && !IsPreflight(access_, request)) {
    return responder.Send(ErrorResponse(NothingAt(request.path)));
  }
  responder.Send({204, {{"Allow", methods}}, {}});
}

size_t Router::BodyLimit(const net::HttpRequest& head) {
  size_t limit = kStrangersBodyBytes;
  Secret secret = Secret::kNone;
  for (const Route* route : RoutesAt(head.path)) {
    if (!Answers(*route, head.method) || route->body_limit_bytes <= limit) continue;
    limit = route->body_limit_bytes;
    secret = route->secret;
  }
  if (limit == kStrangersBodyBytes) return limit;
  net::HttpRequest request = head;
  UseForwarded(access_, request);
  const bool is_stranger =
      CheckHostAndOrigin(access_, request) || CheckSecret(access_, request, secret);
  return is_stranger ? kStrangersBodyBytes : limit;
}

bool Router::OnHandshake(const net::HttpRequest& received, net::HttpResponse* refusal) {
  net::HttpRequest request = received;
  UseForwarded(access_, request);
  const std::vector<const Route*> here = RoutesAt(request.path);
  std::optional<api::ApiError> error = CheckHostAndOrigin(access_, request);
  if (!error && (here.empty() || !here.front()->connect)) {
    error =
        api::ApiError{404, "Workers connect to /worker.", "invalid_request_error", "", "not_found"};
  }
  if (!error) error = CheckSecret(access_, request, Secret::kWorkerSocket);
  if (!error) error = here.front()->admit(request);
  if (!error && request.remote_address != received.remote_address &&
      !Place(taken_, request.remote_address).is_free())
    error = OverShare(NoPlace());
  if (!error) return true;
  *refusal = ErrorResponse(*error);
  const std::string id = RequestIdOf(request);
  refusal->headers.emplace_back("X-Request-Id", id);
  LogAnswer(request, id, *refusal);
  const net::Headers cors = CorsHeaders(access_, request, MethodsOf(here));
  refusal->headers.insert(refusal->headers.end(), cors.begin(), cors.end());
  AddSecurityHeaders(refusal->headers, servers_);
  return false;
}

net::HttpResponse Router::MakeError(int status, const std::string& sentence,
                                    const net::HttpRequest& head) {
  const std::vector<const Route*> here = RoutesAt(head.path);
  auto response = RefusalsOf(here)({status, sentence, "invalid_request_error", "", ""});
  const net::Headers cors = CorsHeaders(access_, head, MethodsOf(here));
  response.headers.insert(response.headers.end(), cors.begin(), cors.end());
  AddSecurityHeaders(response.headers, servers_);
  const std::string id = RequestIdOf(head);
  response.headers.emplace_back("X-Request-Id", id);
  LogAnswer(head, id, response);
  return response;
}

void Router::LogAnswer(const net::HttpRequest& request, const std::string& request_id,
                       const net::HttpResponse& response) const {
  if (!logs_requests_) return;
  AccessLine line = LineOf(access_, request, request_id);
  line.status = response.status;
  for (const Slice& piece : response.body) line.byte_count += piece.byte_count();
  WriteAccessLine(line);
}

net::WebSocketCallbacks Router::OnWebSocket(const net::HttpRequest& received,
                                            std::shared_ptr<net::WebSocket> socket) {
  net::HttpRequest request = received;
  UseForwarded(access_, request);
  std::shared_ptr<Place> place;
  if (request.remote_address != received.remote_address)
    place = std::make_shared<Place>(taken_, request.remote_address);
  LogAnswer(request, RequestIdOf(request), {.status = 101, .headers = {}, .body = {}});
  const bool is_owner = IsOwner(access_, request);
  net::WebSocketCallbacks callbacks =
      RoutesAt(request.path).front()->connect(request, is_owner, std::move(socket));
  callbacks.on_closed = [place, tell = callbacks.on_closed](const std::string& reason) {
    tell(reason);
  };
  return callbacks;
}

}  // namespace weft::server
