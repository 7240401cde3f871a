// How often devices may join from one network: one that comes back as a stranger again and again
// would else be measured, loaded and planned with each time.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "base/clock.h"
#include "base/token_bucket.h"
#include "swarm/options.h"

namespace weft::swarm {

class Joins {
 public:
  explicit Joins(const CoreOptions& options) : options_(options) {}

  // Of more networks than this, one from which nobody has joined for the longest is forgotten.
  static constexpr size_t kMost = 1024;

  // Whether one more may join from this network now. It then counts.
  bool TryJoin(const std::string& network, Instant now);

 private:
  const CoreOptions& options_;
  std::map<std::string, TokenBucket> networks_;
};

}  // namespace weft::swarm
