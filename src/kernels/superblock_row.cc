#include "kernels/superblock_row.h"

#include "kernels/kquant_panels.h"
#include "kernels/q4s_panels.h"

namespace weft::kernels {

SuperblockRow::SuperblockRow(const Matrix& weight)
    : weight_(weight),
      count_((weight.columns + kSuperblockColumns - 1) / kSuperblockColumns),
      weights_(weight.columns) {
  if (IsKQuant(weight.dtype))
    records_.resize(count_);
  else
    scales_.resize(count_);
}

void SuperblockRow::Read(size_t output) {
  if (IsKQuant(weight_.dtype)) return ReadKQuantRow(weight_, output, records_, weights_);
  ReadQ4sRow(weight_, output, weights_, scales_);
}

float SuperblockRow::Dot(const IntegerInput* row) const {
  if (IsKQuant(weight_.dtype)) return KQuantDot(weight_.dtype, records_, weights_, row);
  return Q4sDot(weights_, scales_, row);
}

}  // namespace weft::kernels
