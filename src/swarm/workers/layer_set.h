// Which layers of the model: a bit per layer, with the few set operations that plans need.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "swarm/binding.h"

namespace weft::swarm {

class LayerSet {
 public:
  LayerSet() = default;
  explicit LayerSet(size_t layer_count) : bits_(layer_count, false) {}

  size_t layer_count() const { return bits_.size(); }
  bool Has(size_t layer) const { return layer < bits_.size() && bits_[layer]; }
  bool HasAll(uint32_t first, uint32_t end) const {
    for (uint32_t i = first; i < end; ++i)
      if (!Has(i)) return false;
    return true;
  }
  bool empty() const {
    for (const bool bit : bits_)
      if (bit) return false;
    return true;
  }
  const std::vector<bool>& bits() const { return bits_; }

  // Layers that the set was not made for are ignored.
  void Add(size_t layer) {
    if (layer < bits_.size()) bits_[layer] = true;
  }
  void Add(const LayerSpan& span) { AddRange(span.first, span.end); }
  void AddRange(uint32_t first, uint32_t end) {
    for (uint32_t i = first; i < end; ++i) Add(i);
  }
  void Remove(size_t layer) {
    if (layer < bits_.size()) bits_[layer] = false;
  }
  void Clear() { bits_.assign(bits_.size(), false); }

  // Maximal contiguous ranges [first, end), rising.
  std::vector<std::pair<uint32_t, uint32_t>> Ranges() const {
    std::vector<std::pair<uint32_t, uint32_t>> ranges;
    for (uint32_t i = 0; i < bits_.size(); ++i) {
      if (!bits_[i]) continue;
      if (!ranges.empty() && ranges.back().second == i)
        ranges.back().second = i + 1;
      else
        ranges.emplace_back(i, i + 1);
    }
    return ranges;
  }
  bool operator==(const LayerSet&) const = default;

 private:
  std::vector<bool> bits_;
};

}  // namespace weft::swarm
