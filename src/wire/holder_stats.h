// Limits of HolderStats (control.proto), which hubs keep and the orchestrator insists on.
#pragma once

#include <cstdint>

namespace weft::wire {

inline constexpr uint32_t kMostHolderUs = 60'000'000;  // what takes longer is told as this
// Of anything that is counted between two messages: bytes, the fastest growing, get there with
// 100 Gbit/s in a minute and a half.
inline constexpr uint64_t kMostHolderCount = uint64_t{1} << 40;

}  // namespace weft::wire
