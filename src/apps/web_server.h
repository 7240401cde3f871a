// WeftServer: everything that `weft serve` answers on its port, routed: page, package, API, worker
// sockets.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "apps/access.h"
#include "apps/chat_routes.h"
#include "apps/host.h"
#include "apps/package_routes.h"
#include "apps/static_files.h"
#include "apps/swarm_feed.h"
#include "net/server.h"

namespace weft::apps {

// What GET /api/share tells a page that may see it.
struct ShareInfo {
  std::string chat_url;
  std::string join_url;
  std::string qr_svg;  // of join_url; "" when other devices cannot reach this server
  bool lan = false;
};

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

}  // namespace weft::apps
