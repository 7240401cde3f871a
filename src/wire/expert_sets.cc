#include "wire/expert_sets.h"

#include <string>

#include "base/check.h"

namespace weft::wire {

// Experts 0, 3 and 9 are the bytes 0x09 0x02.
void FillExpertSets(const std::vector<LayerExperts>& layers, ExpertSets& out) {
  out.Clear();
  for (const LayerExperts& layer : layers) {
    CHECK(!layer.experts.empty() && layer.experts.back() < kMaxExperts);
    std::string bits(layer.experts.back() / 8 + 1, '\0');
    for (const uint32_t expert : layer.experts)
      bits[expert / 8] = static_cast<char>(bits[expert / 8] | (1 << expert % 8));
    pb::ExpertSet& set = *out.Add();
    set.set_layer(layer.layer);
    set.set_experts(std::move(bits));
  }
}

Result<std::vector<LayerExperts>> ReadExpertSets(const ExpertSets& sets, uint32_t layer_count) {
  std::vector<LayerExperts> layers;
  for (const pb::ExpertSet& set : sets) {
    const std::string name = "The set of experts of layer " + std::to_string(set.layer());
    if (set.layer() >= layer_count)
      return Error(ErrorCode::kInvalidData,
                   name + " is of a model with " + std::to_string(layer_count) + " layers.");
    if (!layers.empty() && set.layer() <= layers.back().layer)
      return Error(ErrorCode::kInvalidData, name + " comes after that of layer " +
                                                std::to_string(layers.back().layer) +
                                                ", expected rising layers.");
    const std::string& bits = set.experts();
    if (bits.empty() || bits.size() > kMaxExperts / 8 || bits.back() == '\0')
      return Error(ErrorCode::kInvalidData,
                   name + " has " + std::to_string(bits.size()) + " bytes, expected 1 to " +
                       std::to_string(kMaxExperts / 8) + " of which the last is not 0.");
    LayerExperts& layer = layers.emplace_back();
    layer.layer = set.layer();
    for (uint32_t expert = 0; expert < bits.size() * 8; ++expert)
      if ((static_cast<uint8_t>(bits[expert / 8]) >> expert % 8 & 1) != 0)
        layer.experts.push_back(expert);
  }
  return layers;
}

}  // namespace weft::wire
