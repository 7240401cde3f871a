#include "wire/probe_rows.h"

#include <algorithm>

namespace weft::wire {
namespace {

uint32_t Mix(uint32_t h) {
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

}  // namespace

std::vector<float> ProbeRows(uint64_t seed, uint32_t rows, uint32_t columns) {
  const auto low = static_cast<uint32_t>(seed), high = static_cast<uint32_t>(seed >> 32);
  std::vector<float> values;
  values.reserve(size_t{rows} * columns);
  for (uint32_t row = 0; row < rows; ++row)
    for (uint32_t column = 0; column < columns; ++column) {
      const uint32_t h = Mix(low + row * 0x85ebca6bu + (column + 1) * 0x9e3779b1u);
      const auto part = static_cast<int32_t>(Mix(h ^ high) % 128);
      values.push_back(static_cast<float>(part - 64) / 1024.0f);
    }
  return values;
}

std::vector<uint32_t> ProbeColumns(uint32_t columns) {
  const uint32_t count = std::min(kProbeSamples, columns);
  std::vector<uint32_t> chosen;
  for (uint64_t i = 0; i < count; ++i) chosen.push_back(static_cast<uint32_t>(i * columns / count));
  return chosen;
}

}  // namespace weft::wire
