#include "convert/model/recurrent_families.h"

#include <utility>

#include "program/ir.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

// The mixer of every layer by `layer_types`; `names` are those that the family has.
Status SetMixers(const JsonReader& config,
                 std::initializer_list<std::pair<std::string_view, Mixer>> names,
                 ModelConfig* model) {
  ASSIGN_OR_RETURN(const json::array* types, config.Array("layer_types"));
  if (types == nullptr) return OkStatus();
  if (types->size() != model->layer_count) {
    return Error(ErrorCode::kInvalidData, "'layer_types' in config.json has " +
                                              std::to_string(types->size()) + " entries for " +
                                              std::to_string(model->layer_count) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count; ++i) {
    const json::string* name = (*types)[i].if_string();
    bool known = false;
    std::string expected;
    for (const auto& entry : names) {
      expected += (expected.empty() ? "" : " or ") + std::string(entry.first);
      if (name == nullptr || std::string_view(*name) != entry.first) continue;
      model->mixers[i] = entry.second;
      known = true;
    }
    if (!known) {
      return Error(ErrorCode::kUnsupported, "'layer_types' in config.json names " +
                                                Excerpt((*types)[i]) + "; expected " + expected +
                                                ".");
    }
  }
  return OkStatus();
}

Status ReadCount(const JsonReader& config, std::string_view key, uint64_t least, uint64_t most,
                 uint64_t if_absent, uint32_t* out) {
  ASSIGN_OR_RETURN(const uint64_t value, config.Whole(key, least, most, if_absent));
  *out = static_cast<uint32_t>(value);
  return OkStatus();
}

Status ReadDeltaNet(const JsonReader& config, DeltaNetConfig* delta) {
  constexpr uint64_t kMostHeads = 1 << 12, kMostColumns = program::kMaxStateColumns;
  TRY(ReadCount(config, "linear_num_key_heads", 1, kMostHeads, 16, &delta->key_heads));
  TRY(ReadCount(config, "linear_num_value_heads", 1, kMostHeads, 32, &delta->value_heads));
  TRY(ReadCount(config, "linear_key_head_dim", 1, kMostColumns, 128, &delta->key_columns));
  TRY(ReadCount(config, "linear_value_head_dim", 1, kMostColumns, 128, &delta->value_columns));
  TRY(ReadCount(config, "linear_conv_kernel_dim", 2, program::kMaxConvTaps, 4, &delta->taps));
  // No key of Hugging Face: GGUF files order value heads so.
  ASSIGN_OR_RETURN(delta->tiled, config.Bool("linear_value_heads_tiled", false));
  if (delta->value_heads % delta->key_heads == 0) return OkStatus();
  return Error(ErrorCode::kInvalidData, "config.json has " + std::to_string(delta->key_heads) +
                                            " 'linear_num_key_heads' and " +
                                            std::to_string(delta->value_heads) +
                                            " 'linear_num_value_heads', which do not divide.");
}

}  // namespace

Status AdjustQwen35(const JsonReader& config, ModelConfig* model) {
  model->norms_add_one = true;
  model->qk_norm = QkNorm::kHead;
  model->attention_gate = true;
  ASSIGN_OR_RETURN(const bool bias, config.Bool("attention_bias", false));
  model->qkv_bias = model->output_bias = bias;
  // The class's default, where the file says nothing.
  ASSIGN_OR_RETURN(const json::object* rope, config.Object("rope_parameters"));
  const bool partial_said = config.Has("partial_rotary_factor") ||
                            (rope != nullptr && rope->contains("partial_rotary_factor"));
  if (!partial_said) model->rope.rotary_columns = model->head_columns / 4 / 2 * 2;
  ASSIGN_OR_RETURN(const uint64_t interval, config.Whole("full_attention_interval", 1, 1 << 20, 4));
  for (uint32_t i = 0; i < model->layer_count; ++i) {
    const bool is_full = (i + 1) % interval == 0;
    model->mixers[i] = is_full ? Mixer::kAttention : Mixer::kDeltaNet;
  }
  TRY(SetMixers(config,
                {{"linear_attention", Mixer::kDeltaNet}, {"full_attention", Mixer::kAttention}},
                model));
  return ReadDeltaNet(config, &model->delta_net);
}

}  // namespace weft::convert
