#include "dispatch/parity.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"

namespace weft::dispatch {
namespace {

constexpr uint8_t kPolynomial = 0x1d;

constexpr uint8_t Doubled(uint8_t x) {
  return static_cast<uint8_t>(x << 1 ^ (x >> 7) * kPolynomial);
}
// Eight bytes at once.
constexpr uint64_t EachDoubled(uint64_t x) {
  constexpr uint64_t kLowBits = 0x0101010101010101ull;
  return (x & 0x7f * kLowBits) << 1 ^ (x >> 7 & kLowBits) * kPolynomial;
}
static_assert(Doubled(uint8_t{0x80}) == 0x1d &&
              EachDoubled(0x8001800180018001ull) == 0x1d021d021d021d02ull);

// into = into ^ packet, where kDoubles 2 * into ^ packet, in words and what is left of them.
template <bool kDoubles>
void Add(ByteSpan packet, std::vector<uint8_t>& into) {
  if (into.size() < packet.size()) into.resize(packet.size());
  size_t i = 0;
  for (; i + sizeof(uint64_t) <= into.size(); i += sizeof(uint64_t)) {
    uint64_t sum = 0, more = 0;
    std::memcpy(&sum, &into[i], sizeof(sum));
    if (i < packet.size())
      std::memcpy(&more, &packet[i], std::min(sizeof(more), packet.size() - i));
    sum = (kDoubles ? EachDoubled(sum) : sum) ^ more;
    std::memcpy(&into[i], &sum, sizeof(sum));
  }
  for (; i < into.size(); ++i)
    into[i] = static_cast<uint8_t>((kDoubles ? Doubled(into[i]) : into[i]) ^
                                   (i < packet.size() ? packet[i] : 0));
}

}  // namespace

uint8_t TimesInField(uint8_t a, uint8_t b) {
  uint8_t product = 0;
  for (; b != 0; b = static_cast<uint8_t>(b >> 1), a = Doubled(a))
    if ((b & 1) != 0) product = static_cast<uint8_t>(product ^ a);
  return product;
}

// The 255 elements that are not 0 are a group, so a^255 = 1.
uint8_t InverseInField(uint8_t a) {
  CHECK(a != 0);
  uint8_t power = 1;
  for (int i = 0; i < 254; ++i) power = TimesInField(power, a);
  return power;
}

void AddTimes(uint8_t factor, ByteSpan packet, std::vector<uint8_t>& into) {
  if (factor == 1) return Add<false>(packet, into);
  std::array<uint8_t, 256> times;
  for (size_t x = 0; x < times.size(); ++x)
    times[x] = TimesInField(factor, static_cast<uint8_t>(x));
  if (into.size() < packet.size()) into.resize(packet.size());
  for (size_t i = 0; i < packet.size(); ++i)
    into[i] = static_cast<uint8_t>(into[i] ^ times[packet[i]]);
}

void DoubleAndAdd(ByteSpan packet, std::vector<uint8_t>& into) {
  Add<true>(packet, into);
}

}  // namespace weft::dispatch
