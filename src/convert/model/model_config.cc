#include "convert/model/model_config.h"

#include <algorithm>

namespace weft::convert {

std::vector<RopeConfig> ModelConfig::Rotations() const {
  std::vector<RopeConfig> all = {rope};
  if (local_rope) all.push_back(*local_rope);
  for (const LayerConfig& layer : layers) {
    if (!layer.rotates || !layer.rope) continue;
    if (std::ranges::find(all, *layer.rope) == all.end()) all.push_back(*layer.rope);
  }
  return all;
}

uint32_t ModelConfig::RotationOf(uint32_t layer) const {
  const LayerConfig& own = layers[layer];
  if (!own.rotates) return kNoRotation;
  if (!own.rope) return local_rope && own.window != 0 ? 1 : 0;
  const std::vector<RopeConfig> all = Rotations();
  return static_cast<uint32_t>(std::ranges::find(all, *own.rope) - all.begin());
}

std::vector<LayerRange> ModelConfig::KeptTogether() const {
  if (layer_inputs.columns > 0) return {{0, layer_count() + 1}};
  std::vector<LayerRange> ranges;
  for (uint32_t layer = 0; layer < layer_count(); ++layer) {
    if (!layers[layer].kv_from) continue;
    LayerRange range{*layers[layer].kv_from + 1, layer + 2};  // the embedding is layer 0
    while (!ranges.empty() && ranges.back().end > range.first) {
      range.first = std::min(range.first, ranges.back().first);
      ranges.pop_back();
    }
    ranges.push_back(range);
  }
  return ranges;
}

}  // namespace weft::convert
