#include "swarm/workers/joins.h"

#include <algorithm>

namespace weft::swarm {

bool Joins::TryJoin(const std::string& network, Instant now) {
  const auto place =
      networks_.try_emplace(network, options_.joins_at_once, options_.joins_per_s, now).first;
  const bool may_join = place->second.Take(now);
  if (networks_.size() > kMost)
    networks_.erase(std::min_element(
        networks_.begin(), networks_.end(), [](const auto& one, const auto& other) {
          return one.second.last_asked_at() < other.second.last_asked_at();
        }));
  return may_join;
}

}  // namespace weft::swarm
