// GET /api/swarm and its stream of server-sent events: the picture of the swarm, at most five times
// a second; and /api/swarm/history, what it showed over the last day.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/swarm_json.h"
#include "net/http.h"
#include "net/loop.h"
#include "server/swarm_history.h"
#include "server/swarm_host.h"

namespace weft::server {

class SwarmFeed {
 public:
  explicit SwarmFeed(net::EventLoop& loop);

  // Shows this model's swarm from now on; nullptr: there is none. `host` outlives that.
  void Show(const SwarmHost* host, api::ModelCard model);
  const SwarmHost* host() const { return host_; }

  void AnswerOnce(net::Responder& responder) const;
  void AnswerHistory(net::Responder& responder) const;
  // 503 when too many watch already.
  void Subscribe(std::shared_ptr<net::Responder> responder);
  void EndSubscriptions() { subscribers_.clear(); }
  // Schedules an update for everyone.
  void Changed();

 private:
  std::string Picture() const;
  void Publish();
  void Beat();

  const SwarmHost* host_ = nullptr;
  api::ModelCard model_;
  SwarmHistory history_;
  std::vector<std::shared_ptr<net::Responder>> subscribers_;
  net::EventLoop::Timer publish_timer_;
  net::EventLoop::Timer heartbeat_;
  bool pending_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace weft::server
