#include "convert/weights/recurrent_specs.h"

#include <string>

#include "base/check.h"

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

// Weights of a mixer that are rows of one tensor each.
class MixerSpecs {
 public:
  MixerSpecs(std::string prefix, std::vector<WeightSpec>* weights)
      : prefix_(std::move(prefix)), weights_(weights) {}

  // Rows [first, first + rows) of `tensor` [all_rows, columns].
  void Rows(const std::string& name, WeightRole role, const std::string& tensor, uint64_t all_rows,
            uint64_t columns, uint64_t first, uint64_t rows) {
    Push(name, role, {rows, columns},
         {prefix_ + tensor, {all_rows, columns}, rows, columns, first});
  }
  void Matrix(const std::string& name, uint64_t rows, uint64_t columns) {
    Rows(name, WeightRole::kMatrix, name, rows, columns, 0, rows);
  }
  // Values [first, first + columns) of `tensor` [all]: where they are no whole row, rows of one
  // column.
  void Part(const std::string& name, const std::string& tensor, uint64_t all, uint64_t first,
            uint64_t columns) {
    const bool is_whole = columns == all;
    Push(name, WeightRole::kVector, {columns},
         {prefix_ + tensor, {all}, is_whole ? 1 : columns, is_whole ? columns : 1, first});
  }
  void Vector(const std::string& name, const std::string& tensor, uint64_t columns) {
    Part(name, tensor, columns, 0, columns);
  }
  // A vector [columns] as one row for each of `groups` groups; as it is where there is one.
  void Groups(const std::string& name, uint64_t groups, uint64_t columns) {
    Vector(name, name, columns);
    if (groups > 1) last().shape = {groups, columns / groups};
  }
  void Conv(const std::string& name, uint64_t channels, uint64_t taps, bool has_bias) {
    Push(name + ".weight", WeightRole::kVector, {channels, taps},
         {prefix_ + name + ".weight", {channels, 1, taps}, channels, taps});
    if (has_bias) Vector(name + ".bias", name + ".bias", channels);
  }
  WeightSpec& last() { return weights_->back(); }

 private:
  void Push(const std::string& name, WeightRole role, std::vector<uint64_t> shape,
            SourcePiece piece) {
    weights_->push_back({prefix_ + name, role, std::move(shape), {std::move(piece)}, 0, {}});
  }

  const std::string prefix_;
  std::vector<WeightSpec>* const weights_;
};

void SpecifyShortConv(const ModelConfig& config, uint32_t layer, std::vector<WeightSpec>* weights) {
  const uint64_t hidden = config.hidden_columns;
  const bool has_bias = config.short_conv.bias;
  MixerSpecs specs(LayerPrefix(layer) + "conv.", weights);
  specs.Matrix("in_proj.weight", 3 * hidden, hidden);
  specs.Matrix("out_proj.weight", hidden, hidden);
  if (has_bias) {
    specs.Vector("in_proj.bias", "in_proj.bias", 3 * hidden);
    specs.Vector("out_proj.bias", "out_proj.bias", hidden);
  }
  specs.Conv("conv", hidden, config.short_conv.taps, has_bias);
}

// in_proj has [z | x, b, c | dt]; the last is one number a head, too few rows to be worth four
// bits.
void SpecifyMamba(const ModelConfig& config, uint32_t layer, std::vector<WeightSpec>* weights) {
  const MambaConfig& mamba = config.mamba;
  const uint64_t hidden = config.hidden_columns, width = mamba.width();
  const uint64_t rows = width + mamba.conv_width(), all_rows = rows + mamba.heads;
  MixerSpecs specs(LayerPrefix(layer) + "mamba.", weights);
  specs.Rows("in_proj.weight", WeightRole::kMatrix, "in_proj.weight", all_rows, hidden, 0, rows);
  specs.Rows("dt_proj.weight", WeightRole::kRouter, "in_proj.weight", all_rows, hidden, rows,
             mamba.heads);
  specs.Matrix("out_proj.weight", hidden, width);
  if (mamba.bias) {
    specs.Part("in_proj.bias", "in_proj.bias", all_rows, 0, rows);
    specs.Part("dt_proj.bias", "in_proj.bias", all_rows, rows, mamba.heads);
    specs.Vector("out_proj.bias", "out_proj.bias", hidden);
  }
  specs.Conv("conv1d", mamba.conv_width(), mamba.taps, mamba.conv_bias);
  specs.Vector("decay", "A_log", mamba.heads);
  specs.last().minus_exp = true;
  specs.Vector("dt_bias", "dt_bias", mamba.heads);
  specs.Vector("skip", "D", mamba.heads);
  specs.Groups("norm.weight", mamba.norm_groups, width);
}

}  // namespace

void SpecifyRecurrent(const ModelConfig& config, uint32_t layer, const TensorMap& tensors,
                      std::vector<WeightSpec>* weights) {
  switch (config.layers[layer - 1].mixer) {
    case Mixer::kDeltaNet:
      return DeltaNetSpecs(config, layer, tensors, weights).Add();
    case Mixer::kShortConv:
      return SpecifyShortConv(config, layer, weights);
    case Mixer::kMamba2:
      return SpecifyMamba(config, layer, weights);
    case Mixer::kNone:
      return;
    case Mixer::kAttention:
      break;
  }
  CHECK(false, "a mixer without state");
}

}  // namespace weft::convert
