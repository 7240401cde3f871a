// Fork frames: in the layers of a binding, a session begins as what another one holds up to a
// position. From the orchestrator only, in order with the steps of the connection; little-endian, a
// message of its own beside data frames, 32 bytes:
//
//   0  u32 magic "WFRK"   4  u16 protocol version   6  u16 zero
//   8  u32 binding          12 u16 stage              14 u16 zero
//   16 u32 from: the session that is shared         20 u32 session: the one that begins
//   24 u32 its generation, above those in which the layers know it
//   28 u32 positions that the two have in common, at least 1
//
// Nothing answers it. Where the fork cannot be made, the next step of the session does not continue
// what is held, and is refused (StepFailed).
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::wire {

inline constexpr uint32_t kForkMagic = 0x4b524657;  // "WFRK"
inline constexpr size_t kForkBytes = 32;

struct Fork {
  uint32_t binding = 0;
  uint16_t stage = 0;
  uint32_t from = 0, session = 0;
  uint32_t generation = 0;
  uint32_t position_count = 0;
  bool operator==(const Fork&) const = default;
};

// Whether the message is a fork frame rather than a data frame.
bool IsForkFrame(ByteSpan message);

std::vector<uint8_t> EncodeFork(const Fork& fork);

// The error names the field, its value and what was expected.
Result<Fork> DecodeFork(ByteSpan message);

}  // namespace weft::wire
