// The best token of a row and its runner-up, of the two best of each range of the output head
// (program/product_ranges.h). It is what an argmax over all logits gives, bit by bit.
#pragma once

#include <span>

#include "base/result.h"
#include "engine/engine.h"
#include "program/product_ranges.h"

namespace weft::engine {

// `slots` [ranges, kBestColumns]. kInvalidData: they are not finite, or name no columns of a range.
// REQUIRES: ranges of two columns or more.
Result<Selection> BestOfRanges(const program::ProductRanges& ranges, std::span<const float> slots);

}  // namespace weft::engine
