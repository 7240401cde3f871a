#include "convert/model/model_config.h"

#include <algorithm>

namespace weft::convert {

std::vector<RopeConfig> ModelConfig::Rotations() const {
  std::vector<RopeConfig> all = {rope};
  if (local_rope) all.push_back(*local_rope);
  for (uint32_t layer = 0; layer < layer_ropes.size(); ++layer) {
    const RopeConfig& own = layer_ropes[layer];
    const bool is_used = unrotated.empty() || !unrotated[layer];
    if (is_used && std::find(all.begin(), all.end(), own) == all.end()) all.push_back(own);
  }
  return all;
}

uint32_t ModelConfig::RotationOf(uint32_t layer) const {
  if (!unrotated.empty() && unrotated[layer]) return kNoRotation;
  if (layer_ropes.empty()) return local_rope && windows[layer] != 0 ? 1 : 0;
  const std::vector<RopeConfig> all = Rotations();
  return static_cast<uint32_t>(std::find(all.begin(), all.end(), layer_ropes[layer]) - all.begin());
}

std::vector<package::LayerRange> ModelConfig::KeptTogether() const {
  if (layer_inputs.columns > 0) return {{0, layer_count + 1}};
  std::vector<package::LayerRange> ranges;
  for (uint32_t layer = 0; layer < kv_layers.size(); ++layer) {
    if (kv_layers[layer] == layer) continue;
    package::LayerRange range{kv_layers[layer] + 1, layer + 2};  // the embedding is layer 0
    while (!ranges.empty() && ranges.back().end > range.first) {
      range.first = std::min(range.first, ranges.back().first);
      ranges.pop_back();
    }
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace weft::convert
