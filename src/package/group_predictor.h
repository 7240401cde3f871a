// A predictor tells which neuron groups of an MLP will matter for a row, before anybody computes
// them. It is two small matrices that give the norms of the groups' outputs (halo-lossy-networks
// III-B2).
//
//   h = max(0, first x + first_bias)           x: the row [columns] that the layer `reads` gave to
//   norms = max(0, second h + second_bias)        its groups, usually the layer one ahead
//
// As a blob, little-endian:
//
//   u32 magic "WFGP"   u32 version   u32 columns   u32 hidden   u32 groups   u32 reads
//   first    q4 [hidden, columns]: for each row its blocks of 32 values, then their f16 scales
//   first_bias   f32 [hidden]
//   second   q4 [groups, hidden], in the same form
//   second_bias  f32 [groups]
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::package {

inline constexpr uint32_t kPredictorVersion = 1;
inline constexpr uint32_t kMaxPredictorColumns = 1 << 20, kMaxPredictorHidden = 4096,
                          kMaxPredictorGroups = 1 << 16;

struct GroupPredictor {
  uint32_t columns = 0, hidden = 0, groups = 0;
  uint32_t reads = 0;  // layer
  std::vector<float> first, first_bias, second, second_bias;

  // The norms [groups], none negative. REQUIRES: a row of `columns` finite values.
  std::vector<float> Predict(std::span<const float> row) const;
};

// Rounds both matrices to q4. REQUIRES: sizes as the members say and within the limits, finite.
std::vector<uint8_t> EncodePredictor(const GroupPredictor& predictor);
// With the matrices as they were rounded. kUnsupported: of another version. kInvalidData: no
// predictor, sizes beyond the limits, a length that does not fit them, or values not finite.
Result<GroupPredictor> DecodePredictor(ByteSpan blob);

}  // namespace weft::package
