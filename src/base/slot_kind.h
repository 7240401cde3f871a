// What a step that stopped wants of each row's slots (engine/engine.h, dispatch/dispatcher.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft {

enum class SlotKind : uint8_t {
  kExperts,   // a row for every slot, one for each expert that the row chose
  kSums,      // the sum of the row's slots, one for every neuron group of the layer
  kRanges,    // a row for every slot, one for every range of the output head: its logits
  kBest,      // the same, of rows that want their best token alone: the two best of the range
  kProducts,  // a row for every slot, one for every range of products inside a layer
};

// Columns of a row of kBest: the best logit and its column in the range, then the second's. Equal
// logits: the lower column comes first.
inline constexpr size_t kBestColumns = 4;

constexpr bool IsOfHead(SlotKind kind) {
  return kind == SlotKind::kRanges || kind == SlotKind::kBest;
}

// Whether a slot's row has the columns of a range, and not those of the row that goes in.
constexpr bool IsInRanges(SlotKind kind) {
  return IsOfHead(kind) || kind == SlotKind::kProducts;
}

// Whether every row has the same slots, so that whoever holds some may have any share of them.
constexpr bool IsShared(SlotKind kind) {
  return kind != SlotKind::kExperts;
}

}  // namespace weft
