// Both ends of a connection have to agree about this: versions, limits, and how often a ping comes.
// A mismatch of versions is answered with both numbers and what to do.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace weft::wire {

inline constexpr uint32_t kProtocolVersion = 5;
inline constexpr char kServerVersion[] = "0.1.0";

// First byte of a WebSocket message that holds a control message.
inline constexpr uint8_t kControlByte = 0x01;

// Limits of SECURITY.md 3.
inline constexpr size_t kMaxControlBytes = 64 * 1024;

// How often the orchestrator pings. A worker that hears nothing at all for three of them leaves the
// connection and makes a new one.
inline constexpr Duration kPingInterval = Milliseconds(500);

}  // namespace weft::wire
