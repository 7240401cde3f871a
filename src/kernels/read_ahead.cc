#include "kernels/read_ahead.h"

namespace weft::kernels {

bool FollowsOneStream() {
#if defined(__x86_64__)
  static const bool is_amd = __builtin_cpu_is("amd");
  return is_amd;
#else
  return false;
#endif
}

}  // namespace weft::kernels
