// What config.json says of Gemma 2, 3 and 4.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "convert/model/adjust.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

// What Gemma 2 and 3 have in common.
Status AdjustGemma(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  ASSIGN_OR_RETURN(model->tied_embeddings, config.Bool("tie_word_embeddings", true));
  model->norms_add_one = true;
  model->norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                  "post_feedforward_layernorm"};
  model->embedding_scale = std::sqrt(static_cast<float>(model->hidden_columns));
  model->rounds_embedding_scale = true;
  ASSIGN_OR_RETURN(const double scalar, config.Real("query_pre_attn_scalar", 1e-3, 1e6, 256));
  model->attention_scale = static_cast<float>(1 / std::sqrt(scalar));
  ASSIGN_OR_RETURN(const double attention_cap, config.Real("attn_logit_softcapping", 0, 1e6, 0));
  ASSIGN_OR_RETURN(const double final_cap, config.Real("final_logit_softcapping", 0, 1e6, 0));
  model->attention_softcap = static_cast<float>(attention_cap);
  model->final_softcap = static_cast<float>(final_cap);
  // Only false, or not set, is a causal language model.
  ASSIGN_OR_RETURN(const bool both_ways, config.Bool("use_bidirectional_attention", false));
  if (!both_ways) return OkStatus();
  return Error(ErrorCode::kUnsupported,
               "config.json has 'use_bidirectional_attention'; weft converts decoders that look "
               "back only.");
}

// Heads of one layer of Gemma 4.
struct Heads {
  uint32_t columns = 0;
  uint32_t kv_heads = 0;
  bool operator==(const Heads&) const = default;
};

Result<Heads> ReadHeads(const JsonReader& reader, Heads if_absent, const char* columns_name,
                        const char* kv_heads_name) {
  ASSIGN_OR_RETURN(const uint64_t columns,
                   reader.Whole(columns_name, 1, 1 << 14, if_absent.columns));
  ASSIGN_OR_RETURN(const uint64_t kv_heads,
                   reader.Whole(kv_heads_name, 1, 1 << 14, if_absent.kv_heads));
  return Heads{static_cast<uint32_t>(columns), static_cast<uint32_t>(kv_heads)};
}

// The heads of every layer: `per_layer_config` ({"5": {"head_dim": 512, ..}, ..}, as transformers
// 5.17 writes it) or, in older files, `global_head_dim` and `num_global_key_value_heads` of the
// layers without a window.
Result<std::vector<Heads>> LayerHeads(const JsonReader& config, const ModelConfig& model,
                                      const std::vector<bool>& sliding, bool k_eq_v) {
  const Heads usual{model.head_columns, model.kv_heads};
  std::vector<Heads> layers(model.layer_count(), usual);
  ASSIGN_OR_RETURN(const json::object* own, config.Object("per_layer_config"));
  if (own == nullptr) {
    ASSIGN_OR_RETURN(Heads global, ReadHeads(config, {512, usual.kv_heads}, "global_head_dim",
                                             "num_global_key_value_heads"));
    if (!k_eq_v) global.kv_heads = usual.kv_heads;
    for (uint32_t i = 0; i < model.layer_count(); ++i) {
      if (!sliding[i]) layers[i] = global;
    }
    return layers;
  }
  for (const auto& [name, value] : *own) {
    uint32_t layer = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data(), end, layer);
    if (parsed.ec != std::errc() || parsed.ptr != end || layer >= model.layer_count() ||
        !value.is_object()) {
      return Error(ErrorCode::kInvalidData, "'per_layer_config' in config.json has the entry '" +
                                                Printable(name) +
                                                "'; expected objects for the layers 0 to " +
                                                std::to_string(model.layer_count() - 1) + ".");
    }
    const JsonReader reader(value.get_object(),
                            "'per_layer_config' of layer " + std::string(name) + " in config.json");
    ASSIGN_OR_RETURN(layers[layer], ReadHeads(reader, usual, "head_dim", "num_key_value_heads"));
    for (const auto& [key, ignored] : value.get_object()) {
      if (key == "head_dim" || key == "num_key_value_heads") continue;
      return Error(ErrorCode::kUnsupported,
                   reader.what() + " has the key '" + Printable(key) +
                       "'; weft converts layers that differ in head_dim and num_key_value_heads.");
    }
  }
  return layers;
}

Status CheckHeads(const std::vector<Heads>& layers, const ModelConfig& model) {
  for (uint32_t i = 0; i < model.layer_count(); ++i) {
    if (model.heads % layers[i].kv_heads == 0 &&
        uint64_t{model.heads} * layers[i].columns <= (1 << 22)) {
      continue;
    }
    return Error(ErrorCode::kInvalidData,
                 "Layer " + std::to_string(i) + " of config.json has " +
                     std::to_string(layers[i].kv_heads) + " key and value heads of " +
                     std::to_string(layers[i].columns) + " columns; expected a divisor of its " +
                     std::to_string(model.heads) + " heads, and at most 2^22 columns in all.");
  }
  return OkStatus();
}

// The two kinds of layers have rotations of their own, over heads of their own.
Status SetGemma4Rotations(const JsonReader& config, const std::vector<Heads>& layers,
                          const std::vector<bool>& sliding, ModelConfig* model) {
  uint32_t full = model->head_columns, local = model->head_columns;
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    (sliding[i] ? local : full) = layers[i].columns;
  }
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    if (layers[i].columns == (sliding[i] ? local : full)) continue;
    return Error(ErrorCode::kUnsupported,
                 "Layer " + std::to_string(i) + " of config.json has heads of " +
                     std::to_string(layers[i].columns) + " columns, others of its type of " +
                     std::to_string(sliding[i] ? local : full) +
                     "; weft converts models where layers of a type have the same heads.");
  }
  ASSIGN_OR_RETURN(Ropes ropes, ReadRopes(config, full, std::nullopt, local));
  if (!ropes.local) ropes.local = ropes.rope;
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    model->layers[i].rope = sliding[i] ? *ropes.local : ropes.rope;
  }
  model->rope = *model->layers.front().rope;
  model->local_rope.reset();
  return OkStatus();
}

Status RefuseBothWays(const JsonReader& config) {
  const auto found = config.object().find("use_bidirectional_attention");
  // "vision": between the tokens of a picture, which no text has.
  const bool is_causal = found == config.object().end() || found->value().is_null() ||
                         found->value() == false || found->value() == "vision";
  if (is_causal) return OkStatus();
  return Error(ErrorCode::kUnsupported, "'use_bidirectional_attention' in config.json is " +
                                            Excerpt(found->value()) +
                                            "; weft converts decoders that look back only.");
}

// The last `num_kv_shared_layers` layers make no keys and values: each attends to those of the last
// layer of its type that does. With `use_double_wide_mlp` their MLPs are twice as wide.
Status ShareKeysAndValues(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint64_t sharing,
                   config.Whole("num_kv_shared_layers", 0, model->layer_count(), 0));
  ASSIGN_OR_RETURN(const bool is_wider, config.Bool("use_double_wide_mlp", false));
  if (sharing == 0) return OkStatus();
  const uint32_t first = model->layer_count() - static_cast<uint32_t>(sharing);
  for (uint32_t i = first; i < model->layer_count(); ++i) {
    LayerConfig& layer = model->layers[i];
    const auto is_like = [&](const LayerConfig& other) {
      return (other.window == 0) == (layer.window == 0);
    };
    uint32_t source = first;
    while (source > 0 && !is_like(model->layers[source - 1])) --source;
    if (source == 0) {
      return Error(ErrorCode::kInvalidData,
                   "Layer " + std::to_string(i) +
                       " of config.json shares the keys and values of an earlier layer of its "
                       "type ('num_kv_shared_layers' is " +
                       std::to_string(sharing) + "), but there is none.");
    }
    layer.kv_from = --source;
    if (is_wider) layer.mlp_columns = 2 * model->mlp_columns;
    const LayerConfig& from = model->layers[source];
    if (from.kv_heads != layer.kv_heads || from.head_columns != layer.head_columns) {
      return Error(ErrorCode::kUnsupported,
                   "Layer " + std::to_string(i) +
                       " of config.json shares the keys and values of layer " +
                       std::to_string(source) + ", which has other heads.");
    }
  }
  return OkStatus();
}

// The embeddings of each layer's own.
Status SetLayerInputs(const JsonReader& config, ModelConfig* model) {
  LayerInputConfig inputs;
  ASSIGN_OR_RETURN(const uint64_t columns,
                   config.Whole("hidden_size_per_layer_input", 0, 1 << 14, 256));
  if (columns == 0) return OkStatus();
  ASSIGN_OR_RETURN(const uint64_t vocabulary,
                   config.Whole("vocab_size_per_layer_input", 1, 1 << 24, 262144));
  const uint64_t carried = columns * model->layer_count();
  if (carried > (1 << 17) || vocabulary < model->vocabulary) {
    return Error(ErrorCode::kUnsupported,
                 "config.json has " + std::to_string(model->layer_count()) +
                     " layers with embeddings of " + std::to_string(columns) + " columns for " +
                     std::to_string(vocabulary) + " of " + std::to_string(model->vocabulary) +
                     " tokens ('hidden_size_per_layer_input', 'vocab_size_per_layer_input'); weft "
                     "converts at most 2^17 columns in all, for every token.");
  }
  inputs.columns = static_cast<uint32_t>(columns);
  inputs.vocabulary = static_cast<uint32_t>(vocabulary);
  inputs.scale = std::sqrt(static_cast<float>(columns));
  model->layer_inputs = inputs;
  return OkStatus();
}

Status SetGemma4(const JsonReader& config, bool keys_are_values, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  TRY(RefuseBothWays(config));
  model->norms = {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm",
                  "post_feedforward_layernorm"};
  model->qk_norm = QkNorm::kHead;
  model->value_norm = true;
  model->layer_scalars = true;
  model->attention_scale = 1;
  model->embedding_scale = std::sqrt(static_cast<float>(model->hidden_columns));
  model->rounds_embedding_scale = true;
  ASSIGN_OR_RETURN(const double final_cap, config.Real("final_logit_softcapping", 0, 1e6, 0));
  model->final_softcap = static_cast<float>(final_cap);
  ASSIGN_OR_RETURN(std::vector<bool> sliding,
                   SlidingLayers(
                       config, [](uint32_t i) { return (i + 1) % 6 != 0; }, *model));
  sliding.back() = false;  // the configuration class does so, too
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  ASSIGN_OR_RETURN(const std::vector<Heads> layers,
                   LayerHeads(config, *model, sliding, keys_are_values));
  TRY(CheckHeads(layers, *model));
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    LayerConfig& layer = model->layers[i];
    layer.window = sliding[i] ? window : 0;
    layer.head_columns = layers[i].columns;
    layer.kv_heads = layers[i].kv_heads;
    layer.keys_are_values = keys_are_values && !sliding[i];
  }
  return SetGemma4Rotations(config, layers, sliding, model);
}

}  // namespace

Status AdjustGemma2(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustGemma(config, model));
  return SetWindows(
      config, [](uint32_t i) { return i % 2 == 0; }, model);
}

Status AdjustGemma3(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustGemma(config, model));
  model->qk_norm = QkNorm::kHead;
  if (!config.Has("rope_parameters")) {  // what older files leave out
    if (!config.Has("rope_theta")) model->rope.theta = 1e6;
    if (!model->local_rope) {
      model->local_rope.emplace();
      model->local_rope->rotary_columns = model->rope.rotary_columns;
    }
  }
  const char* name =
      config.Has("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern";
  ASSIGN_OR_RETURN(const uint64_t pattern, config.Whole(name, 1, 1 << 20, 6));
  return SetWindows(
      config, [&](uint32_t i) { return (i + 1) % pattern != 0; }, model);
}

Status AdjustGemma4(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool keys_are_values, config.Bool("attention_k_eq_v", false));
  TRY(SetGemma4(config, keys_are_values, model));
  TRY(ShareKeysAndValues(config, model));
  TRY(SetLayerInputs(config, model));
  ASSIGN_OR_RETURN(const bool has_experts, config.Bool("enable_moe_block", false));
  if (!has_experts) return OkStatus();
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  model->experts.beside_mlp = true;
  return OkStatus();
}

Status AdjustGemma4Unified(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool keys_are_values, config.Bool("attention_k_eq_v", true));
  return SetGemma4(config, keys_are_values, model);
}

}  // namespace weft::convert
