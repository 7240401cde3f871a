// WeftServer: everything that `weft serve` answers on its port, routed: page, package, API, worker
// sockets.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "net/server.h"
#include "server/access.h"
#include "server/chat_routes.h"
#include "server/package_routes.h"
#include "server/sharing.h"
#include "server/static_files.h"
#include "server/swarm_feed.h"
#include "server/swarm_host.h"

namespace weft::server {

class WeftServer : public net::ServerHandler {
 public:
  struct Parts {
    AccessPolicy access;
    ShareInfo share;
    std::optional<StaticFiles> files;  // nullopt: no page was built
    SwarmHost* host = nullptr;
    SwarmFeed* feed = nullptr;
    ChatRoutes* chat = nullptr;
    PackageRoutes* package = nullptr;
  };
  explicit WeftServer(Parts parts);

  void OnRequest(net::HttpRequest request, std::shared_ptr<net::Responder> responder) override;
  bool OnHandshake(const net::HttpRequest& request, net::HttpResponse* refusal) override;
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest& request,
                                      std::shared_ptr<net::WebSocket> socket) override;
  net::HttpResponse MakeError(int status, const std::string& sentence) override;

  // The ports are known after listening.
  void SetAccess(AccessPolicy access) { parts_.access = std::move(access); }
  void SetShare(ShareInfo share) { parts_.share = std::move(share); }

 private:
  void AnswerApi(const net::HttpRequest& request, std::shared_ptr<net::Responder> responder);
  void AnswerProbe(const net::HttpRequest& request, net::Responder& responder);
  std::string MetricsText() const;

  Parts parts_;
  Slice probe_block_;  // random bytes, sent again and again
};

}  // namespace weft::server
