// Pooler: the rows of one text become its embedding. Sums are of f64 in the order of positions. So
// the bits of the result do not depend on how the rows came: in which pieces, from which devices,
// beside which others.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "package/embedding.h"

namespace weft::server {

class Pooler {
 public:
  // `dimensions`: columns of the embedding, at most `columns`.
  Pooler(package::Pooling pooling, bool normalize, uint32_t columns, uint32_t dimensions);

  // Rows [rows, columns] of f32, little-endian, for positions `first`... Position 0 begins anew.
  // Of a mean they follow those that came before.
  void Add(uint32_t first, ByteSpan rows);

  // Positions that have come; of the last row all up to it.
  uint32_t position_count() const { return position_count_; }
  // kInvalidData where a row held what is no number.
  Result<std::vector<float>> Finish() const;

 private:
  const package::Pooling pooling_;
  const bool normalize_;
  const uint32_t columns_, dimensions_;
  uint32_t position_count_ = 0;
  uint32_t row_count_ = 0;   // in `sum_`
  std::vector<double> sum_;  // [columns]
};

}  // namespace weft::server
