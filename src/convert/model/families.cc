// One row each in kFamilies, with a function that sets what differs from plain Llama. Adding a
// family is a row, a function here, and names in weight_specs.cc when its tensors are called
// otherwise.
#include "convert/model/families.h"

#include <cmath>

namespace weft::convert {
namespace {

namespace json = boost::json;

Result<uint32_t> Window(const JsonReader& config) {
  ASSIGN_OR_RETURN(const uint64_t window, config.Whole("sliding_window", 0, 1 << 30, 0));
  return static_cast<uint32_t>(window);
}

// The window of every layer, by `layer_types`, or by `is_sliding` where config.json has none.
template <typename IsSliding>
Status SetWindows(const JsonReader& config, const IsSliding& is_sliding, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  ASSIGN_OR_RETURN(const json::array* types, config.Array("layer_types"));
  if (types != nullptr && types->size() != model->layer_count) {
    return Error(ErrorCode::kInvalidData, "'layer_types' in config.json has " +
                                              std::to_string(types->size()) + " entries for " +
                                              std::to_string(model->layer_count) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count; ++i) {
    bool sliding = is_sliding(i);
    if (types != nullptr) {
      sliding = (*types)[i] == "sliding_attention";
      if (!sliding && (*types)[i] != "full_attention") {
        return Error(ErrorCode::kUnsupported,
                     "'layer_types' in config.json names " + Excerpt((*types)[i]) +
                         "; weft converts layers of full_attention and sliding_attention.");
      }
    }
    model->windows[i] = sliding ? window : 0;
  }
  return OkStatus();
}

// Qwen: a window only with use_sliding_window, and by layer_types or from layer max_window_layers
// on.
Status SetQwenWindows(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool used, config.Bool("use_sliding_window", false));
  if (!used) return OkStatus();
  ASSIGN_OR_RETURN(const uint64_t first,
                   config.Whole("max_window_layers", 0, 1 << 20, model->layer_count));
  return SetWindows(
      config, [&](uint32_t i) { return i >= first; }, model);
}

Status SetAttentionBias(const JsonReader& config, bool if_absent, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool bias, config.Bool("attention_bias", if_absent));
  model->qkv_bias = model->output_bias = bias;
  return OkStatus();
}

// The number of experts has two names; 0 when there is neither.
Status SetExperts(const JsonReader& config, uint64_t columns, ModelConfig* model) {
  constexpr uint64_t kMaxExperts = 4096;
  const char* count_name = config.Has("num_experts") ? "num_experts" : "num_local_experts";
  ASSIGN_OR_RETURN(const uint64_t count, config.Whole(count_name, 1, kMaxExperts));
  if (count * model->layer_count > (1 << 16)) {
    return Error(ErrorCode::kInvalidData, "config.json has " + std::to_string(model->layer_count) +
                                              " layers of " + std::to_string(count) +
                                              " experts; at most 2^16 experts in all.");
  }
  const char* chosen_name =
      config.Has("num_experts_per_tok") ? "num_experts_per_tok" : "experts_per_token";
  ASSIGN_OR_RETURN(const uint64_t chosen, config.Whole(chosen_name, 1, count));
  model->experts.count = static_cast<uint32_t>(count);
  model->experts.chosen = static_cast<uint32_t>(chosen);
  model->experts.columns = static_cast<uint32_t>(columns);
  model->sparse.assign(model->layer_count, true);
  return OkStatus();
}

Status AdjustLlama(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  return SetAttentionBias(config, false, model);
}

// Every layer attends to `sliding_window` positions when that is set.
Status AdjustMistral(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  model->windows.assign(model->layer_count, window);
  return OkStatus();
}

Status AdjustMixtral(const JsonReader& config, ModelConfig* model) {
  TRY(SetExperts(config, model->mlp_columns, model));
  return AdjustMistral(config, model);
}

Status AdjustPhi3(const JsonReader& config, ModelConfig* model) {
  model->packed_projections = true;
  return AdjustMistral(config, model);
}

Status AdjustQwen2(const JsonReader& config, ModelConfig* model) {
  model->qkv_bias = true;
  return SetQwenWindows(config, model);
}

Status AdjustQwen3(const JsonReader& config, ModelConfig* model) {
  model->qk_norm = true;
  TRY(SetAttentionBias(config, false, model));
  return SetQwenWindows(config, model);
}

// Every decoder_sparse_step-th layer has experts, but for those that mlp_only_layers names.
Status AdjustQwen3Moe(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustQwen3(config, model));
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  ASSIGN_OR_RETURN(model->experts.normalized, config.Bool("norm_topk_prob", false));
  ASSIGN_OR_RETURN(const uint64_t step, config.Whole("decoder_sparse_step", 1, 1 << 20, 1));
  for (uint32_t i = 0; i < model->layer_count; ++i) model->sparse[i] = (i + 1) % step == 0;
  ASSIGN_OR_RETURN(const json::array* dense, config.Array("mlp_only_layers"));
  if (dense == nullptr) return OkStatus();
  for (const json::value& layer : *dense) {
    if (!layer.is_int64() || layer.get_int64() < 0 || layer.get_int64() >= model->layer_count) {
      return Error(ErrorCode::kInvalidData, "'mlp_only_layers' in config.json names the layer " +
                                                Excerpt(layer) + "; expected 0 to " +
                                                std::to_string(model->layer_count - 1) + ".");
    }
    model->sparse[static_cast<size_t>(layer.get_int64())] = false;
  }
  return OkStatus();
}

// What Gemma 2 and 3 have in common.
Status AdjustGemma(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, false, model));
  ASSIGN_OR_RETURN(model->tied_embeddings, config.Bool("tie_word_embeddings", true));
  model->norms_add_one = true;
  model->post_norms = true;
  model->embedding_scale = std::sqrt(static_cast<float>(model->hidden_columns));
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

Status AdjustGemma2(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustGemma(config, model));
  return SetWindows(
      config, [](uint32_t i) { return i % 2 == 0; }, model);
}

Status AdjustGemma3(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustGemma(config, model));
  model->qk_norm = true;
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

Status AdjustGptOss(const JsonReader& config, ModelConfig* model) {
  TRY(SetAttentionBias(config, true, model));
  TRY(SetExperts(config, model->mlp_columns, model));
  ASSIGN_OR_RETURN(const double limit, config.Real("swiglu_limit", 0, 1e6, 7));
  if (limit != 7) {
    return Error(ErrorCode::kUnsupported, "'swiglu_limit' in config.json is " +
                                              std::to_string(limit) + "; weft converts 7.");
  }
  model->experts.bias = model->experts.router_bias = true;
  model->sinks = true;
  model->activation = Activation::kSwigluOai;
  return SetWindows(
      config, [](uint32_t i) { return i % 2 == 0; }, model);
}

constexpr Family kFamilies[] = {
    {"gemma2", "Gemma2ForCausalLM", AdjustGemma2},
    {"gemma3_text", "Gemma3ForCausalLM", AdjustGemma3},
    {"gpt_oss", "GptOssForCausalLM", AdjustGptOss},
    {"llama", "LlamaForCausalLM", AdjustLlama},
    {"mistral", "MistralForCausalLM", AdjustMistral},
    {"mixtral", "MixtralForCausalLM", AdjustMixtral},
    {"phi3", "Phi3ForCausalLM", AdjustPhi3},
    {"qwen2", "Qwen2ForCausalLM", AdjustQwen2},
    {"qwen3", "Qwen3ForCausalLM", AdjustQwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", AdjustQwen3Moe},
};

}  // namespace

std::span<const Family> Families() {
  return kFamilies;
}

}  // namespace weft::convert
