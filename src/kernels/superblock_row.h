// Products with a weight in superblocks, one output after another, by the scalar rules of
// integer_rows.h. They are the oracle of the kernels, and multiply weights that are not panels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/integer_rows.h"
#include "kernels/matrix.h"

namespace weft::kernels {

class SuperblockRow {
 public:
  // REQUIRES: IsSuperblockFormat(weight.dtype), stored or in panels.
  explicit SuperblockRow(const Matrix& weight);

  void Read(size_t output);
  // The product of the output that was read with a prepared row.
  float Dot(const IntegerInput* row) const;
  // Superblocks of a row.
  size_t count() const { return count_; }

 private:
  const Matrix weight_;
  const size_t count_;
  std::vector<int8_t> weights_;  // of k-quants: levels
  std::vector<float> scales_;
  std::vector<KQuantRecord> records_;
};

}  // namespace weft::kernels
