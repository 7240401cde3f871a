// Router: what `weft serve` answers on its port. Every request goes the same way: who may talk to
// the server at all (access.h), the table of routes, the route's secret and limits, its handler.
// Every answer goes through one finishing step.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/address.h"
#include "net/server.h"
#include "server/access.h"
#include "server/responses.h"

namespace weft::server {

struct Route {
  std::string method;  // "GET" answers HEAD too
  std::string path;    // the whole path, or with '*' at its end all paths that begin so
  Secret secret = Secret::kNone;
  size_t body_limit_bytes = 0;
  // Answers now or later. Streams may outlive the call, not the router.
  std::function<void(net::HttpRequest, std::shared_ptr<net::Responder>)> handle;
  // Of a route that takes WebSockets: an error refuses the handshake.
  std::function<std::optional<api::ApiError>(const net::HttpRequest&)> admit;
  // `is_owner`: of access.h.
  std::function<net::WebSocketCallbacks(const net::HttpRequest&, bool is_owner,
                                        std::shared_ptr<net::WebSocket>)>
      connect;
  bool may_lack_host = false;  // of CheckHostAndOrigin
  // How what its path refuses before the handler is said.
  net::HttpResponse (*refuse)(const api::ApiError&) = ErrorResponse;
};

class Router : public net::ServerHandler {
 public:
  explicit Router(std::vector<Route> routes) : routes_(std::move(routes)) {}
  ~Router() override;

  // The policy names ports, which are known after listening.
  void SetAccess(AccessPolicy access) { access_ = std::move(access); }
  const AccessPolicy& access() const { return access_; }
  // How a server of several models finds the one that a request asks, for keys that are for some.
  void FindModelsWith(std::function<std::string(const net::HttpRequest&)> find_model) {
    find_model_ = std::move(find_model);
  }
  // Pages may connect to these servers, too: those that may lead after this one.
  void LetPagesConnectTo(const std::vector<net::Url>& servers);
  // From now on every answer leaves a line in the log (access_line.h).
  void LogRequests() { logs_requests_ = true; }

  void OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) override;
  bool OnHandshake(const net::HttpRequest& request, net::HttpResponse* refusal) override;
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest& request,
                                      std::shared_ptr<net::WebSocket> socket) override;
  size_t BodyLimit(const net::HttpRequest& head) override;
  net::HttpResponse MakeError(int status, const std::string& sentence,
                              const net::HttpRequest& head) override;

 private:
  class FinishingResponder;
  class Place;

  std::vector<const Route*> RoutesAt(std::string_view path) const;
  // False: it is answered, for its named key has no more of what it asks.
  bool AdmitByKey(const Route& route, const net::HttpRequest& request,
                  FinishingResponder& responder);
  void AnswerOptions(const net::HttpRequest& request, const std::vector<const Route*>& here,
                     net::Responder& responder) const;

  void LogAnswer(const net::HttpRequest& request, const std::string& request_id,
                 const net::HttpResponse& response) const;

  const std::vector<Route> routes_;
  bool logs_requests_ = false;
  std::function<std::string(const net::HttpRequest&)> find_model_;
  AccessPolicy access_;
  std::string servers_;  // of LetPagesConnectTo, as sources of a content security policy
  // Answers that are owed and sockets, by the network of clients behind a trusted proxy.
  std::shared_ptr<std::map<std::string, size_t>> taken_ =
      std::make_shared<std::map<std::string, size_t>>();
};

}  // namespace weft::server
