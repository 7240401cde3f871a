// Which layers of a model, and in which form: words that planning, the wire and engines share.
#pragma once

#include <cstdint>

namespace weft {

// Layers [first, end): 0 is the embedding, 1..n are transformer layers, n + 1 is the output head.
// {1, 3} are the first two transformer layers.
struct LayerRange {
  uint32_t first = 0;
  uint32_t end = 0;  // one past the last

  constexpr bool operator==(const LayerRange&) const = default;
  constexpr bool Covers(uint32_t layer) const { return first <= layer && layer < end; }
  constexpr bool Overlaps(const LayerRange& other) const {
    return first < other.end && other.first < end;
  }
};

// A layer is loaded whole, or as a hub holds it: without its experts or neuron groups, which other
// devices hold. The two are different things to load.
enum class LayerForm : uint8_t { kWhole, kHub };
constexpr LayerForm LayerFormOf(bool is_hub) {
  return is_hub ? LayerForm::kHub : LayerForm::kWhole;
}
constexpr bool IsHub(LayerForm form) {
  return form == LayerForm::kHub;
}

}  // namespace weft
