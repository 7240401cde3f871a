// What the families of families.cc set in a ModelConfig, and what they read in the same way.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "convert/model/model_config.h"
#include "convert/source/json_reader.h"

namespace weft::convert {

// `sliding_window`; 0 where it is not set.
Result<uint32_t> Window(const JsonReader& config);

// `attention_bias`: of q, k, v and the output projection.
Status SetAttentionBias(const JsonReader& config, bool if_absent, ModelConfig* model);

// The experts of all layers, `columns` wide. Their number has three names.
Status SetExperts(const JsonReader& config, uint64_t columns, ModelConfig* model);

// `layer_types` as "is this layer one with a window"; where config.json has none, by `is_sliding`.
template <typename IsSliding>
Result<std::vector<bool>> SlidingLayers(const JsonReader& config, const IsSliding& is_sliding,
                                        const ModelConfig& model) {
  ASSIGN_OR_RETURN(const boost::json::array* types, config.Array("layer_types"));
  if (types != nullptr && types->size() != model.layer_count()) {
    return Error(ErrorCode::kInvalidData, "'layer_types' in config.json has " +
                                              std::to_string(types->size()) + " entries for " +
                                              std::to_string(model.layer_count()) + " layers.");
  }
  std::vector<bool> sliding(model.layer_count());
  for (uint32_t i = 0; i < model.layer_count(); ++i) {
    sliding[i] = is_sliding(i);
    if (types == nullptr) continue;
    sliding[i] = (*types)[i] == "sliding_attention";
    if (!sliding[i] && (*types)[i] != "full_attention") {
      return Error(ErrorCode::kUnsupported,
                   "'layer_types' in config.json names " + Excerpt((*types)[i]) +
                       "; weft converts layers of full_attention and sliding_attention.");
    }
  }
  return sliding;
}

// The window of every layer, by `layer_types`, or by `is_sliding` where config.json has none.
template <typename IsSliding>
Status SetWindows(const JsonReader& config, const IsSliding& is_sliding, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  ASSIGN_OR_RETURN(const std::vector<bool> sliding, SlidingLayers(config, is_sliding, *model));
  for (uint32_t i = 0; i < model->layer_count(); ++i)
    model->layers[i].window = sliding[i] ? window : 0;
  return OkStatus();
}

// DeepSeek-V3's choice of experts: sigmoids with a bias, `norm_topk_prob`, and the best groups of
// experts (`n_group`, `topk_group`) by their two best.
Status SetSigmoidChoice(const JsonReader& config, ModelConfig* model);

// Every layer attends to `sliding_window` positions when that is set.
Status AdjustMistral(const JsonReader& config, ModelConfig* model);

// Queries grow with their position beyond `original_max_position_embeddings`
// (`llama_4_scaling_beta`): the package ends there, which is said.
Status EndWhereQueriesGrow(const JsonReader& config, ModelConfig* model);

// gemma_families.cc
inline constexpr std::string_view kGemma3Defaults =
    R"({"tie_word_embeddings": true, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "vocab_size": 262208, "max_position_embeddings": 131072,
        "sliding_window": 4096})";
inline constexpr std::string_view kGemma4Defaults =
    R"({"tie_word_embeddings": true, "num_attention_heads": 8, "num_key_value_heads": 4,
        "head_dim": 256, "max_position_embeddings": 131072, "sliding_window": 512,
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {
          "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
          "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25,
                             "rope_theta": 1000000.0}}})";
Status AdjustGemma2(const JsonReader& config, ModelConfig* model);
Status AdjustGemma3(const JsonReader& config, ModelConfig* model);
Status AdjustGemma4(const JsonReader& config, ModelConfig* model);
Status AdjustGemma4Unified(const JsonReader& config, ModelConfig* model);

// dense_families.cc
Status AdjustCohere2(const JsonReader& config, ModelConfig* model);
Status AdjustErnie(const JsonReader& config, ModelConfig* model);
Status AdjustExaone4(const JsonReader& config, ModelConfig* model);
Status AdjustGlm4(const JsonReader& config, ModelConfig* model);
Status AdjustGranite(const JsonReader& config, ModelConfig* model);
Status AdjustGraniteSwa(const JsonReader& config, ModelConfig* model);
Status AdjustHunyuan(const JsonReader& config, ModelConfig* model);
Status AdjustMinistral3(const JsonReader& config, ModelConfig* model);
Status AdjustOlmo2(const JsonReader& config, ModelConfig* model);
Status AdjustOlmo3(const JsonReader& config, ModelConfig* model);
Status AdjustSeedOss(const JsonReader& config, ModelConfig* model);
Status AdjustSmolLm3(const JsonReader& config, ModelConfig* model);

}  // namespace weft::convert
