// A server of a cluster on loopback, for tests: a port whose sockets are links.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cluster_host/peer_links.h"
#include "net/net_testing.h"
#include "net/server.h"

namespace weft::cluster_host {

class LinkedServer : public net::ServerHandler {
 public:
  LinkedServer(net::EventLoop& loop, const ClusterKey& key, cluster::Holder self)
      : links(loop, key, self) {
    auto listening = net::Server::Listen(loop, {}, this);
    EXPECT_TRUE(listening.ok());
    server_ = std::move(*listening);
    links.OnPeer([this](cluster::ServerId peer, bool is_up) {
      told.push_back((is_up ? "up " : "down ") + ToString(peer));
    });
    links.OnFailed([this](cluster::ServerId peer, bool is_refused) {
      told.push_back((is_refused ? "refused " : "failed ") + ToString(peer));
    });
  }

  PeerAddress address() const {
    return {"http://127.0.0.1:" + std::to_string(server_->port()), ""};
  }
  void EndListening() { server_.reset(); }

  void OnRequest(net::HttpRequest, std::shared_ptr<net::Responder> responder) override {
    responder->Send(net::TextResponse(404, "text/plain", "no"));
  }
  bool OnHandshake(const net::HttpRequest& request, net::HttpResponse*) override {
    return request.path == kLinkPath;
  }
  net::WebSocketCallbacks OnWebSocket(const net::HttpRequest&,
                                      std::shared_ptr<net::WebSocket> socket) override {
    return links.Accept(std::move(socket));
  }

  PeerLinks links;
  std::vector<std::string> told;

 private:
  std::unique_ptr<net::Server> server_;
};

using net::RunUntil;

}  // namespace weft::cluster_host
