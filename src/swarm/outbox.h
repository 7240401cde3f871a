// Collects the actions of one Core::Handle call, in order.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "swarm/events.h"

namespace weft::swarm {

class Outbox {
 public:
  // A control message to fill in; valid until the next call on this outbox.
  wire::pb::ServerMessage& Control(WorkerId worker) {
    actions_.push_back(SendControl{worker, {}});
    return std::get<SendControl>(actions_.back()).message;
  }
  void Add(Action action) { actions_.push_back(std::move(action)); }

  std::vector<Action> Take() { return std::exchange(actions_, {}); }

 private:
  std::vector<Action> actions_;
};

}  // namespace weft::swarm
