#include "convert/weights/layer_weight.h"

namespace weft::convert {

std::string LayerPrefix(uint32_t package_layer) {
  return "model.layers." + std::to_string(package_layer - 1) + ".";
}

std::string LayerTableName(uint32_t layer) {
  return "model.embed_tokens_per_layer." + std::to_string(layer) + ".weight";
}

std::string ExpertPrefix(uint32_t package_layer, uint32_t expert) {
  return LayerPrefix(package_layer) + "mlp.experts." + std::to_string(expert) + ".";
}

}  // namespace weft::convert
