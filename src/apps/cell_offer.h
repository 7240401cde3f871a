// What a device offers a model of a server with several.
#pragma once

#include <algorithm>
#include <cstdint>

#include "server/server_options.h"

namespace weft::apps {

// What the model needs, as far as `left_bytes` go; 0: the device does not help it.
inline uint64_t OfferFor(uint64_t need_bytes, uint64_t left_bytes) {
  const uint64_t bytes = std::min(need_bytes, left_bytes);
  return bytes < server::kLeastOfferBytes ? 0 : bytes;
}

}  // namespace weft::apps
