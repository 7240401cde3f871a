// Versions that both ends of a connection compare; a mismatch is answered with both numbers and
// what to do.
#pragma once

#include <cstdint>

namespace weft::wire {

inline constexpr uint32_t kProtocolVersion = 2;
inline constexpr char kServerVersion[] = "0.1.0";

// First byte of a WebSocket message that holds a control message.
inline constexpr uint8_t kControlByte = 0x01;

// Limits of SECURITY.md 3.
inline constexpr size_t kMaxControlBytes = 64 * 1024;

}  // namespace weft::wire
