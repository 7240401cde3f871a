// Collects the actions of one Leases::Handle call, in order, and numbers questions.
#pragma once

#include <utility>
#include <vector>

#include "cluster/events.h"

namespace weft::cluster {

class Outbox {
 public:
  void Add(Action action) { actions_.push_back(std::move(action)); }
  QueryId NextQuery() { return ++last_query_; }
  std::vector<Action> Take() { return std::exchange(actions_, {}); }

 private:
  std::vector<Action> actions_;
  QueryId last_query_;
};

}  // namespace weft::cluster
