#include "base/unix_time.h"

#include <chrono>

namespace weft {

int64_t UnixNowMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace weft
