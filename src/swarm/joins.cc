#include "swarm/joins.h"

#include <algorithm>

namespace weft::swarm {

bool Joins::TryJoin(const std::string& network, Instant now) {
  const double most = options_.joins_at_once;
  const auto [place, is_new] = networks_.try_emplace(network, Bucket{most, now});
  Bucket& bucket = place->second;
  bucket.left = std::min(most, bucket.left + (now - bucket.at).seconds() * options_.joins_per_s);
  bucket.at = now;
  const bool may_join = bucket.left >= 1;
  if (may_join) bucket.left -= 1;
  if (networks_.size() > kMost)
    networks_.erase(std::min_element(
        networks_.begin(), networks_.end(),
        [](const auto& one, const auto& other) { return one.second.at < other.second.at; }));
  return may_join;
}

}  // namespace weft::swarm
