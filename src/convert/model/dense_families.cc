// What config.json says of the dense families beside Llama, Mistral, Qwen and Gemma.
#include <algorithm>
#include <cmath>

#include "convert/model/adjust.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

// Blocks read the residual stream as it is, and what they add is normed.
LayerNorms NormsAfterBlocks() {
  return {"", "post_attention_layernorm", "", "post_feedforward_layernorm"};
}

Result<float> Factor(const JsonReader& config, const char* name) {
  ASSIGN_OR_RETURN(const double factor, config.Real(name, 1e-9, 1e9, 1.0));
  return static_cast<float>(factor);
}

// Layers with a 0 in `no_rope_layers` stay unrotated; without it, every `interval`-th one.
Status SetUnrotated(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint64_t interval, config.Whole("no_rope_layer_interval", 1, 1 << 20, 4));
  ASSIGN_OR_RETURN(const json::array* rotates, config.Array("no_rope_layers"));
  if (rotates != nullptr && rotates->size() < model->layer_count()) {
    return Error(ErrorCode::kInvalidData, "'no_rope_layers' in config.json has " +
                                              std::to_string(rotates->size()) + " entries for " +
                                              std::to_string(model->layer_count()) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    if (rotates == nullptr) {
      model->layers[i].rotates = (i + 1) % interval != 0;
      continue;
    }
    const json::value& entry = (*rotates)[i];
    if (entry != 0 && entry != 1) {
      return Error(ErrorCode::kInvalidData, "'no_rope_layers' in config.json holds " +
                                                Excerpt(entry) + "; expected 0 or 1.");
    }
    model->layers[i].rotates = entry != 0;
  }
  return OkStatus();
}

// `layer_rope_theta`: the base of each layer's rotation, 0 for a layer without one.
Status SetLayerBases(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const json::array* bases, config.Array("layer_rope_theta"));
  if (bases == nullptr) return OkStatus();
  if (bases->size() != model->layer_count()) {
    return Error(ErrorCode::kInvalidData, "'layer_rope_theta' in config.json has " +
                                              std::to_string(bases->size()) + " entries for " +
                                              std::to_string(model->layer_count()) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    const json::value& base = (*bases)[i];
    const double theta = base.is_number() ? base.to_number<double>() : -1;
    if (theta != 0 && !(theta >= 1 && theta <= 1e12)) {
      return Error(ErrorCode::kInvalidData, "'layer_rope_theta' in config.json holds " +
                                                Excerpt(base) +
                                                "; expected 0, or a number from 1 to 1e12.");
    }
    model->layers[i].rotates = theta != 0;
    if (theta != 0) model->layers[i].rope.emplace(model->rope).theta = theta;
  }
  constexpr size_t kMostRotations = 64;  // one table each, in every layer's file
  if (model->Rotations().size() > kMostRotations) {
    return Error(ErrorCode::kUnsupported, "'layer_rope_theta' in config.json has more than " +
                                              std::to_string(kMostRotations) + " different bases.");
  }
  return OkStatus();
}

}  // namespace

Status AdjustCohere2(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  if (model->hidden_columns % model->heads != 0) {
    return Error(ErrorCode::kInvalidData, "The hidden size " +
                                              std::to_string(model->hidden_columns) +
                                              " in config.json is no multiple of its " +
                                              std::to_string(model->heads) + " heads.");
  }
  // The configuration class takes this whatever `head_dim` says.
  if (model->hidden_columns / model->heads != model->head_columns) {
    model->head_columns = model->hidden_columns / model->heads;
    ASSIGN_OR_RETURN(const Ropes ropes, ReadRopes(config, model->head_columns));
    model->rope = ropes.rope;
  }
  ASSIGN_OR_RETURN(const double epsilon, config.Real("layer_norm_eps", 0, 0.1, 1e-5));
  model->rms_epsilon = static_cast<float>(epsilon);
  model->mean_norms = model->parallel_blocks = model->interleaved_pairs = true;
  ASSIGN_OR_RETURN(const double scale, config.Real("logit_scale", 1e-9, 1e9, 0.0625));
  model->logits_scale = static_cast<float>(scale);
  ASSIGN_OR_RETURN(const uint64_t pattern, config.Whole("sliding_window_pattern", 1, 1 << 20, 4));
  TRY(SetWindows(
      config, [&](uint32_t i) { return (i + 1) % pattern != 0; }, model));
  for (LayerConfig& layer : model->layers) layer.rotates = layer.window != 0;
  return OkStatus();
}

Status AdjustErnie(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool bias, config.Bool("use_bias", false));
  model->qkv_bias = model->output_bias = model->mlp_bias = bias;
  model->interleaved_pairs = true;
  return OkStatus();
}

Status AdjustExaone4(const JsonReader& config, ModelConfig* model) {
  model->norms = NormsAfterBlocks();
  model->qk_norm = QkNorm::kHead;
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  // "LLLG" counts as 4, as in the configuration class; `layer_types` is what counts.
  const auto named = config.object().find("sliding_window_pattern");
  uint64_t pattern = 4;
  if (named != config.object().end() && named->value().is_string()) {
    pattern = std::max<uint64_t>(1, named->value().get_string().size());
  } else {
    ASSIGN_OR_RETURN(pattern, config.Whole("sliding_window_pattern", 0, 1 << 20, 4));
  }
  TRY(SetWindows(
      config, [&](uint32_t i) { return window != 0 && pattern != 0 && (i + 1) % pattern != 0; },
      model));
  if (window == 0) return OkStatus();
  for (LayerConfig& layer : model->layers) layer.rotates = layer.window != 0;
  return OkStatus();
}

Status AdjustGlm4(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->qkv_bias, config.Bool("attention_bias", false));
  model->norms = {"input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm",
                  "post_mlp_layernorm"};
  model->packed_gate_up = model->interleaved_pairs = true;
  return OkStatus();
}

Status AdjustGranite(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  ASSIGN_OR_RETURN(model->embedding_scale, Factor(config, "embedding_multiplier"));
  ASSIGN_OR_RETURN(model->residual_scale, Factor(config, "residual_multiplier"));
  ASSIGN_OR_RETURN(model->attention_scale, Factor(config, "attention_multiplier"));
  ASSIGN_OR_RETURN(const float divisor, Factor(config, "logits_scaling"));
  model->logits_scale = 1 / divisor;
  return OkStatus();
}

Status AdjustGraniteSwa(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustGranite(config, model));
  model->sinks = true;
  TRY(SetWindows(
      config, [](uint32_t i) { return i % 4 != 0; }, model));
  return SetLayerBases(config, model);
}

Status AdjustHunyuan(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  model->qk_norm = QkNorm::kHeadAfterRotation;
  model->q_norm = "query_layernorm";
  model->k_norm = "key_layernorm";
  return OkStatus();
}

// Queries are multiplied by 1 + beta ln(1 + floor(position / original context)): by 1 within the
// original context, which is as far as a package goes.
Status EndWhereQueriesGrow(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const json::object* rope, config.Object("rope_parameters"));
  if (rope == nullptr) return OkStatus();
  const JsonReader reader(*rope, "'rope_parameters' in config.json");
  ASSIGN_OR_RETURN(const double beta, reader.Real("llama_4_scaling_beta", 0, 1e3, 0));
  ASSIGN_OR_RETURN(const uint64_t original, reader.Whole("original_max_position_embeddings", 1,
                                                         1 << 28, model->context_length));
  if (beta == 0 || original >= model->context_length) return OkStatus();
  model->notes.push_back(
      "Queries grow beyond " + std::to_string(original) +
      " positions ('llama_4_scaling_beta'): the package is made for texts of up to those.");
  model->context_length = static_cast<uint32_t>(original);
  return OkStatus();
}

Status AdjustMinistral3(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustMistral(config, model));
  return EndWhereQueriesGrow(config, model);
}

Status AdjustOlmo2(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  model->norms = NormsAfterBlocks();
  model->qk_norm = QkNorm::kRow;
  return OkStatus();
}

Status AdjustOlmo3(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustOlmo2(config, model));
  // Where one rotation is described, layers with a window have it without what stretches it.
  if (!model->local_rope && model->rope.kind != RopeConfig::Kind::kDefault) {
    model->local_rope.emplace();
    model->local_rope->theta = model->rope.theta;
    model->local_rope->rotary_columns = model->rope.rotary_columns;
  }
  return SetWindows(
      config, [](uint32_t i) { return (i + 1) % 4 != 0; }, model);
}

Status AdjustSeedOss(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->qkv_bias, config.Bool("attention_bias", true));
  ASSIGN_OR_RETURN(model->output_bias, config.Bool("attention_out_bias", false));
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  return OkStatus();
}

Status AdjustSmolLm3(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  TRY(SetUnrotated(config, model));
  ASSIGN_OR_RETURN(const bool used, config.Bool("use_sliding_window", false));
  if (!used) return OkStatus();
  return SetWindows(
      config, [&](uint32_t i) { return !model->layers[i].rotates; }, model);
}

}  // namespace weft::convert
