// Rows that a device is asked to compute so that it shows that it computes what it should
// (MeasureSpeed.probes). Both ends make them from a seed, so that they need not be sent:
//
//   h = mix(low half of seed + row * 0x85ebca6b + (column + 1) * 0x9e3779b1)
//   h = mix(h ^ high half of seed)                 all modulo 2^32
//   value = ((h mod 128) - 64) / 1024              mix: the finaliser of MurmurHash3
//
// They are exact in f16 and bf16, and small beside what a layer adds to them: what comes out tells
// of the weights. tests/golden/probe_rows.json holds both languages together.
#pragma once

#include <cstdint>
#include <vector>

namespace weft::wire {

inline constexpr uint32_t kMaxProbeRows = 16, kMaxProbes = 4;
// Columns of a row whose values are told beside the digest of all, or all of them.
inline constexpr uint32_t kProbeSamples = 32;

// [rows, columns]
std::vector<float> ProbeRows(uint64_t seed, uint32_t rows, uint32_t columns);

// Column i * columns / count for i of count = min(kProbeSamples, columns).
std::vector<uint32_t> ProbeColumns(uint32_t columns);

}  // namespace weft::wire
