#include "server/pooling.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace weft::server {

Pooler::Pooler(package::Pooling pooling, bool normalize, uint32_t columns, uint32_t dimensions)
    : pooling_(pooling),
      normalize_(normalize),
      columns_(columns),
      dimensions_(dimensions),
      sum_(columns) {
  CHECK(dimensions >= 1 && dimensions <= columns);
}

void Pooler::Add(uint32_t first, ByteSpan rows) {
  const size_t row_bytes = size_t{columns_} * sizeof(float);
  for (size_t at = 0; at + row_bytes <= rows.size(); at += row_bytes) {
    const auto position = first + static_cast<uint32_t>(at / row_bytes);
    if (pooling_ == package::Pooling::kLast || position == 0) {
      std::ranges::fill(sum_, 0.0);
      row_count_ = 0;
    }
    for (uint32_t column = 0; column < columns_; ++column)
      sum_[column] += double{LoadLe<float>(rows.data() + at + column * sizeof(float))};
    ++row_count_;
    position_count_ = position + 1;
  }
}

// The first columns of a longer vector get a length of 1 of their own.
Result<std::vector<float>> Pooler::Finish() const {
  double squares = 0;
  std::vector<double> mean(dimensions_);
  for (uint32_t column = 0; column < dimensions_; ++column) {
    mean[column] = sum_[column] / std::max(row_count_, 1u);
    squares += mean[column] * mean[column];
  }
  if (!std::isfinite(squares))
    return Error(ErrorCode::kInvalidData,
                 "The rows that a device gave hold values that are not finite. Ask again.");
  const double length = normalize_ && squares > 0 ? std::sqrt(squares) : 1;
  std::vector<float> vector(dimensions_);
  for (uint32_t column = 0; column < dimensions_; ++column)
    vector[column] = static_cast<float>(mean[column] / length);
  return vector;
}

}  // namespace weft::server
