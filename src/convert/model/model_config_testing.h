// One field of every layer of a model, to compare with a list.
#pragma once

#include <vector>

#include "convert/model/model_config.h"

namespace weft::convert {

// OfLayers(config, &LayerConfig::window) -> {16, 0, 16, 0}
template <typename T>
std::vector<T> OfLayers(const ModelConfig& config, T LayerConfig::*field) {
  std::vector<T> values;
  for (const LayerConfig& layer : config.layers) values.push_back(layer.*field);
  return values;
}

}  // namespace weft::convert
