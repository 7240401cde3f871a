// For tests: a link between a gateway and a leader in this process. Messages go over it as bytes,
// each in a turn of the loop of its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/check.h"
#include "net/loop.h"
#include "server/linked_generator.h"
#include "server/linked_requests.h"

namespace weft::server {

class MemoryLink {
 public:
  MemoryLink(net::EventLoop& loop, LinkedRequests& leader)
      : loop_(loop), leader_(leader), peer_(leader.Attach(at_leader_)) {}
  ~MemoryLink() { Cut(); }
  MemoryLink(const MemoryLink&) = delete;
  MemoryLink& operator=(const MemoryLink&) = delete;

  LinkedGenerator& gateway() { return gateway_; }
  // What is under way is lost. The gateway's owner is not told: that is the test's part.
  void Cut() {
    is_open_ = false;
    leader_.Detach(peer_);
  }
  // The leader's process is killed: nothing of it comes any more, and it hears of no cut.
  void Kill() { is_open_ = false; }
  void SetFull(bool full) {
    is_full_ = full;
    if (!full && is_open_) leader_.OnDrained(peer_);
  }
  // Called with each message of the leader's before the gateway gets it.
  std::function<void(wire::pb::RequestMessage&)> on_message = [](auto&) {};
  // Whether this message of the gateway's is lost on its way.
  std::function<bool(const wire::pb::RequestMessage&)> loses = [](const auto&) { return false; };
  int from_leader = 0;  // messages that have been delivered
  std::string problem;  // for which the link would have been closed

 private:
  struct Channel : RequestChannel {
    Channel(MemoryLink& a_link, bool to_leader) : link(a_link), goes_to_leader(to_leader) {}
    void Send(wire::pb::RequestMessage message) override {
      link.Post(goes_to_leader, message.SerializeAsString());
    }
    bool is_full() const override { return link.is_full_; }
    MemoryLink& link;
    const bool goes_to_leader;
  };

  void Post(bool to_leader, std::string bytes) {
    loop_.Post([this, to_leader, bytes = std::move(bytes), alive = std::weak_ptr(alive_)] {
      if (alive.expired() || !is_open_) return;
      wire::pb::RequestMessage message;
      CHECK(message.ParseFromString(bytes));
      if (!to_leader) {
        ++from_leader;
        on_message(message);
      }
      if (!is_open_ || (to_leader && loses(message))) return;
      const Status status =
          to_leader ? leader_.OnMessage(peer_, std::move(message)) : gateway_.OnMessage(message);
      if (!status.ok()) problem = status.error().message();
    });
  }

  net::EventLoop& loop_;
  LinkedRequests& leader_;
  Channel at_leader_{*this, false}, at_gateway_{*this, true};
  bool is_open_ = true, is_full_ = false;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  LinkedGenerator gateway_{at_gateway_};
  PeerId peer_;
};

}  // namespace weft::server
