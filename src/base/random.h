// Two kinds of randomness.
// CounterRandom is a function of (seed, position, draw), the same in C++, TypeScript and WGSL
// (32-bit arithmetic only). So a sampled token depends neither on the device that draws it nor on
// how often a step is replayed.
// SecureRandomBytes come from the operating system, for tokens, keys and session ids.
#pragma once

#include <array>
#include <cstdint>

#include "base/bytes.h"

namespace weft {

// Gives the block of Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// 2011), a keyed bijection of a 128-bit counter. Here the key is the seed, and the counter is
// (position low, position high, draw, 0).
std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// Gives a number in [0, 1) with 53 bits of two words. A vocabulary has many tokens that are less
// likely than 2^-24, so draws over all of it need the finer steps.
double CounterDouble(uint64_t seed, uint64_t position, uint32_t draw);

void SecureRandomBytes(MutableByteSpan out);
// Gives `byte_count` random bytes as lower-case hex.
std::string SecureRandomHex(size_t byte_count);

// A small seeded generator for simulation and search (not for security): splitmix64.
class SeededRandom {
 public:
  explicit SeededRandom(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Gives a uniform number in [0, bound). REQUIRES: bound > 0.
  uint64_t Below(uint64_t bound);
  // Gives a uniform number in [0, 1).
  double Uniform();

 private:
  uint64_t state_;
};

}  // namespace weft
