#include "convert/weights/recurrent_specs.h"

#include <string>

namespace weft::convert {
namespace {

class DeltaNetSpecs {
 public:
  DeltaNetSpecs(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                std::vector<WeightSpec>* weights)
      : delta_(config.delta_net),
        hidden_(config.hidden_columns),
        prefix_(LayerPrefix(layer) + "linear_attn."),
        // GGUF files of Qwen3-Next have these two unpacked already.
        has_qkv_(tensors.contains(prefix_ + "in_proj_qkv.weight")),
        weights_(weights) {}

  void Add() {
    if (delta_.packed && !has_qkv_) {
      AddPackedProjections();
    } else {
      Whole("in_proj_qkv.weight", WeightRole::kMatrix, delta_.conv_width());
      Whole("in_proj_z.weight", WeightRole::kMatrix, delta_.value_width());
    }
    if (delta_.packed) {
      AddPackedNumbers();
    } else {
      // One number a head: too few rows to be worth four bits.
      Whole("in_proj_b.weight", WeightRole::kRouter, delta_.value_heads);
      Whole("in_proj_a.weight", WeightRole::kRouter, delta_.value_heads);
    }
    const uint64_t channels = delta_.conv_width(), taps = delta_.taps;
    Push("conv1d.weight", WeightRole::kVector, {channels, taps},
         {{prefix_ + "conv1d.weight", {channels, 1, taps}, channels, taps}});
    Vector("decay", "A_log", delta_.value_heads);
    weights_->back().minus_exp = true;
    Vector("dt_bias", "dt_bias", delta_.value_heads);
    Vector("norm.weight", "norm.weight", delta_.value_columns);
    const uint64_t width = delta_.value_width();
    Push("out_proj.weight", WeightRole::kMatrix, {hidden_, width},
         {{prefix_ + "out_proj.weight", {hidden_, width}, hidden_, width}});
  }

 private:
  void Push(const std::string& name, WeightRole role, std::vector<uint64_t> shape,
            std::vector<SourcePiece> pieces) {
    weights_->push_back({prefix_ + name, role, std::move(shape), std::move(pieces), 0, {}});
  }
  void Vector(const std::string& name, const std::string& tensor, uint64_t columns) {
    Push(name, WeightRole::kVector, {columns}, {{prefix_ + tensor, {columns}, 1, columns}});
  }
  void Whole(const std::string& name, WeightRole role, uint64_t rows) {
    Push(name, role, {rows, hidden_}, {{prefix_ + name, {rows, hidden_}, rows, hidden_}});
  }

  // Rows [first, first + rows) of every key head's stretch of `stretch` rows in `tensor`.
  std::vector<SourcePiece> OfKeyHeads(const std::string& tensor, uint64_t stretch, uint64_t first,
                                      uint64_t rows) const {
    std::vector<SourcePiece> pieces;
    for (uint64_t head = 0; head < delta_.key_heads; ++head) {
      pieces.push_back({prefix_ + tensor,
                        {stretch * delta_.key_heads, hidden_},
                        rows,
                        hidden_,
                        head * stretch + first});
    }
    return pieces;
  }

  // Qwen3-Next: key head by key head [q | k | v of its value heads | z of its value heads]; the
  // value heads of a key head are neighbours, so that order stays.
  void AddPackedProjections() {
    const uint64_t keys = delta_.key_columns, group = delta_.value_heads / delta_.key_heads;
    const uint64_t values = group * delta_.value_columns, stretch = 2 * keys + 2 * values;
    std::vector<SourcePiece> qkv = OfKeyHeads("in_proj_qkvz.weight", stretch, 0, keys);
    for (const SourcePiece& k : OfKeyHeads("in_proj_qkvz.weight", stretch, keys, keys)) {
      qkv.push_back(k);
    }
    for (const SourcePiece& v : OfKeyHeads("in_proj_qkvz.weight", stretch, 2 * keys, values)) {
      qkv.push_back(v);
    }
    Push("in_proj_qkv.weight", WeightRole::kMatrix, {delta_.conv_width(), hidden_}, qkv);
    Push("in_proj_z.weight", WeightRole::kMatrix, {delta_.value_width(), hidden_},
         OfKeyHeads("in_proj_qkvz.weight", stretch, 2 * keys + values, values));
  }

  // Key head by key head [b | a].
  void AddPackedNumbers() {
    const uint64_t group = delta_.value_heads / delta_.key_heads;
    Push("in_proj_b.weight", WeightRole::kRouter, {delta_.value_heads, hidden_},
         OfKeyHeads("in_proj_ba.weight", 2 * group, 0, group));
    Push("in_proj_a.weight", WeightRole::kRouter, {delta_.value_heads, hidden_},
         OfKeyHeads("in_proj_ba.weight", 2 * group, group, group));
  }

  const DeltaNetConfig& delta_;
  const uint64_t hidden_;
  const std::string prefix_;
  const bool has_qkv_;
  std::vector<WeightSpec>* const weights_;
};

}  // namespace

void SpecifyDeltaNet(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                     std::vector<WeightSpec>* weights) {
  DeltaNetSpecs(config, layer, tensors, weights).Add();
}

}  // namespace weft::convert
