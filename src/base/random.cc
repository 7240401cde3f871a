#include "base/random.h"

#include <openssl/rand.h>

namespace weft {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr uint32_t kMultiplier0 = 0xD2511F53;
  constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
  constexpr uint32_t kWeyl0 = 0x9E3779B9;  // golden ratio
  constexpr uint32_t kWeyl1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const uint64_t product0 = static_cast<uint64_t>(kMultiplier0) * counter[0];
    const uint64_t product1 = static_cast<uint64_t>(kMultiplier1) * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

namespace {

std::array<uint32_t, 4> CounterWords(uint64_t seed, uint64_t position, uint32_t draw) {
  return Philox4x32(
      {static_cast<uint32_t>(position), static_cast<uint32_t>(position >> 32), draw, 0},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

}  // namespace

double CounterDouble(uint64_t seed, uint64_t position, uint32_t draw) {
  const auto words = CounterWords(seed, position, draw);
  return static_cast<double>(uint64_t{words[0]} << 21 | words[1] >> 11) * 0x1p-53;
}

void SecureRandomBytes(MutableByteSpan out) {
  CHECK(RAND_bytes(out.data(), static_cast<int>(out.size())) == 1);
}

std::string SecureRandomHex(size_t byte_count) {
  std::vector<uint8_t> bytes(byte_count);
  SecureRandomBytes(bytes);
  return ToHex(bytes);
}

uint64_t SeededRandom::Next() {
  state_ += 0x9E3779B97F4A7C15ull;
  uint64_t mixed = state_;
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

uint64_t SeededRandom::Below(uint64_t bound) {
  CHECK(bound > 0);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
}

double SeededRandom::Uniform() {
  return static_cast<double>(Next() >> 11) * 0x1p-53;
}

}  // namespace weft
