#include "engine/best_of_ranges.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"

namespace weft::engine {

Result<Selection> BestOfRanges(const program::ProductRanges& ranges, std::span<const float> slots) {
  CHECK(slots.size() == ranges.count * kBestColumns);
  std::vector<sampling::TokenLogit> found;
  for (uint32_t range = 0; range < ranges.count; ++range)
    for (size_t at = range * kBestColumns; at < (range + 1) * kBestColumns; at += 2) {
      const float logit = slots[at], column = slots[at + 1];
      const bool is_column = column >= 0 && column < static_cast<float>(ranges.columns) &&
                             column == std::floor(column);
      if (!std::isfinite(logit) || !is_column)
        return Error(ErrorCode::kInvalidData,
                     "Range " + std::to_string(range) + " of the output head gave a logit of " +
                         std::to_string(logit) + " at its column " + std::to_string(column) +
                         ", expected a finite one at one of " + std::to_string(ranges.columns) +
                         ".");
      found.push_back(
          {static_cast<int32_t>(ranges.First(range) + static_cast<uint32_t>(column)), logit});
    }
  std::ranges::sort(found, [](const sampling::TokenLogit& a, const sampling::TokenLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token_id < b.token_id;
  });
  // Two ranges that overlap may both name a column.
  const auto second = std::ranges::find_if(found, [&](const sampling::TokenLogit& each) {
    return each.token_id != found.front().token_id;
  });
  if (second == found.end())
    return Error(ErrorCode::kInvalidData, "The ranges of the output head name token " +
                                              std::to_string(found.front().token_id) +
                                              " alone, expected two.");
  Selection selection;
  selection.candidates = {found.front(), *second};
  return selection;
}

}  // namespace weft::engine
