// The wall clock: for what is kept and compared across restarts and processes, never for measuring.
#pragma once

#include <cstdint>

namespace weft {

// Milliseconds since 1970 in UTC. It may be set back.
int64_t UnixNowMs();

}  // namespace weft
