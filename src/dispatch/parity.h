// Parities of packets, by which lost ones are made again: one by P, two by P and Q, as RAID-6 does
// with disks (H. P. Anvin, "The mathematics of RAID-6").
//
//   P = d0 + d1 + d2 + ...          Q = d0 + 2 d1 + 4 d2 + ...
//
// Bytes are elements of GF(2^8) with the polynomial 0x11d: sums are exclusive ors, and 2 x is x
// shifted, with 0x1d added where a bit falls off. A shorter packet counts as if zeros followed.
//
// d1 and d3 are lost, say, and the rest is d0 and d2. Then A = P + d0 + d2 = d1 + d3, and
// B = Q + d0 + 4 d2 = 2 d1 + 8 d3. So d1 = (B + 8 A) / (2 + 8), and d3 = A + d1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace weft::dispatch {

// Powers of 2 are different, and one byte each, for so many packets of a parity.
inline constexpr size_t kMostOfParity = 8;

enum class ParityKind : uint8_t { kP = 0, kQ = 1 };

// What packet `place` of a parity is multiplied by. REQUIRES: place < kMostOfParity.
constexpr uint8_t ParityFactor(ParityKind kind, size_t place) {
  return static_cast<uint8_t>(kind == ParityKind::kP ? 1 : 1u << place);
}

uint8_t TimesInField(uint8_t a, uint8_t b);
// REQUIRES: a is not 0.
uint8_t InverseInField(uint8_t a);

// into += factor * packet, and into = 2 * into + packet. `into` grows as long as the packet.
void AddTimes(uint8_t factor, ByteSpan packet, std::vector<uint8_t>& into);
void DoubleAndAdd(ByteSpan packet, std::vector<uint8_t>& into);

}  // namespace weft::dispatch
