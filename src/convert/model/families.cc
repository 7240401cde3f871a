// One row each in kFamilies, with a function that sets what differs from plain Llama. Adding a
// family is a row, a function here, and names in weight_specs.cc when its tensors are called
// otherwise.
#include "convert/model/families.h"

#include "convert/model/adjust.h"

#include "convert/model/recurrent_families.h"
#include "convert/model/sparse_families.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

// Qwen: a window only with use_sliding_window, and by layer_types or from layer max_window_layers
// on.
Status SetQwenWindows(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool used, config.Bool("use_sliding_window", false));
  if (!used) return OkStatus();
  ASSIGN_OR_RETURN(const uint64_t first,
                   config.Whole("max_window_layers", 0, 1 << 20, model->layer_count()));
  return SetWindows(
      config, [&](uint32_t i) { return i >= first; }, model);
}

Status AdjustLlama(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  return SetAttentionBias(config, false, model);
}

Status AdjustMixtral(const JsonReader& config, ModelConfig* model) {
  TRY(SetExperts(config, model->mlp_columns, model));
  return AdjustMistral(config, model);
}

Status AdjustPhi3(const JsonReader& config, ModelConfig* model) {
  model->packed_qkv = model->packed_gate_up = true;
  return AdjustMistral(config, model);
}

Status AdjustQwen2(const JsonReader& config, ModelConfig* model) {
  model->qkv_bias = true;
  return SetQwenWindows(config, model);
}

Status AdjustQwen3(const JsonReader& config, ModelConfig* model) {
  model->qk_norm = QkNorm::kHead;
  TRY(SetAttentionBias(config, false, model));
  return SetQwenWindows(config, model);
}

// Every decoder_sparse_step-th layer has experts, but for those that mlp_only_layers names.
Status SetDenseLayers(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint64_t step, config.Whole("decoder_sparse_step", 1, 1 << 20, 1));
  for (uint32_t i = 0; i < model->layer_count(); ++i)
    model->layers[i].has_experts = (i + 1) % step == 0;
  ASSIGN_OR_RETURN(const json::array* dense, config.Array("mlp_only_layers"));
  if (dense == nullptr) return OkStatus();
  for (const json::value& layer : *dense) {
    if (!layer.is_int64() || layer.get_int64() < 0 || layer.get_int64() >= model->layer_count()) {
      return Error(ErrorCode::kInvalidData, "'mlp_only_layers' in config.json names the layer " +
                                                Excerpt(layer) + "; expected 0 to " +
                                                std::to_string(model->layer_count() - 1) + ".");
    }
    model->layers[static_cast<size_t>(layer.get_int64())].has_experts = false;
  }
  return OkStatus();
}

Status AdjustQwen3Moe(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustQwen3(config, model));
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  ASSIGN_OR_RETURN(model->experts.normalized, config.Bool("norm_topk_prob", false));
  return SetDenseLayers(config, model);
}

// Experts in every layer, and one that all rows go to.
Status AdjustQwen35Moe(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustQwen35(config, model));
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22, 512));
  TRY(SetExperts(config, columns, model));
  ASSIGN_OR_RETURN(model->experts.normalized, config.Bool("norm_topk_prob", true));
  ASSIGN_OR_RETURN(const uint64_t shared,
                   config.Whole("shared_expert_intermediate_size", 0, 1 << 22, 512));
  model->experts.gated_shared_columns = static_cast<uint32_t>(shared);
  return SetDenseLayers(config, model);
}

// The same with the projections of a key head packed together.
Status AdjustQwen3Next(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustQwen35Moe(config, model));
  model->delta_net.packed = true;
  return OkStatus();
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

// The last column: what the configuration class takes for keys that a file leaves out, where that
// is not what plain Llama takes.
constexpr Family kFamilies[] = {
    {"cohere2", "Cohere2ForCausalLM", AdjustCohere2,
     R"({"tie_word_embeddings": true, "sliding_window": 4096, "max_position_embeddings": 8192})"},
    {"deepseek_v2", "DeepseekV2ForCausalLM", AdjustDeepseekV2,
     R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "n_routed_experts": 64, "moe_intermediate_size": 1407,
         "first_k_dense_replace": 0})"},
    {"deepseek_v3", "DeepseekV3ForCausalLM", AdjustDeepseekV3,
     R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
         "v_head_dim": 128, "n_routed_experts": 256, "num_experts_per_tok": 8, "n_group": 8,
         "topk_group": 4, "moe_intermediate_size": 2048, "first_k_dense_replace": 3,
         "routed_scaling_factor": 2.5})"},
    {"ernie4_5", "Ernie4_5ForCausalLM", AdjustErnie,
     R"({"tie_word_embeddings": true, "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
         "head_dim": 128})"},
    {"exaone4", "Exaone4ForCausalLM", AdjustExaone4, R"({"rms_norm_eps": 1e-5})"},
    {"gemma2", "Gemma2ForCausalLM", AdjustGemma2},
    {"gemma3_text", "Gemma3ForCausalLM", AdjustGemma3},
    {"gemma4_text", "Gemma4ForCausalLM", AdjustGemma4, kGemma4Defaults},
    {"gemma4_unified_text", "Gemma4UnifiedForCausalLM", AdjustGemma4Unified, kGemma4Defaults},
    {"glm4", "Glm4ForCausalLM", AdjustGlm4,
     R"({"partial_rotary_factor": 0.5, "rms_norm_eps": 1.5625e-07, "head_dim": 128})"},
    {"glm4_moe", "Glm4MoeForCausalLM", AdjustGlm4Moe,
     R"({"partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5, "num_key_value_heads": 8,
         "n_routed_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 1408,
         "first_k_dense_replace": 1})"},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM", AdjustGlm4MoeLite,
     R"({"head_dim": 64, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
         "v_head_dim": 256, "n_routed_experts": 64, "num_experts_per_tok": 4,
         "moe_intermediate_size": 1536, "first_k_dense_replace": 1, "rms_norm_eps": 1e-5,
         "routed_scaling_factor": 1.8})"},
    {"gpt_oss", "GptOssForCausalLM", AdjustGptOss},
    {"granite", "GraniteForCausalLM", AdjustGranite},
    {"granite_swa", "GraniteSWAForCausalLM", AdjustGraniteSwa,
     R"({"tie_word_embeddings": true, "sliding_window": 128, "rms_norm_eps": 1e-5})"},
    {"granitemoehybrid", "GraniteMoeHybridForCausalLM", AdjustGraniteHybrid,
     R"({"vocab_size": 32000, "max_position_embeddings": 2048, "num_local_experts": 8,
         "num_experts_per_tok": 2})"},
    {"hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", AdjustHunyuan, R"({"rms_norm_eps": 1e-5})"},
    {"lfm2", "Lfm2ForCausalLM", AdjustLfm2, kLfm2Defaults, RenameLfm2Keys},
    {"lfm2_moe", "Lfm2MoeForCausalLM", AdjustLfm2Moe, kLfm2Defaults, RenameLfm2Keys},
    {"llama", "LlamaForCausalLM", AdjustLlama},
    {"ministral3", "Ministral3ForCausalLM", AdjustMinistral3, R"({"rms_norm_eps": 1e-5})"},
    {"mistral", "MistralForCausalLM", AdjustMistral},
    {"mistral4", "Mistral4ForCausalLM", AdjustMistral4,
     R"({"head_dim": 64, "first_k_dense_replace": 0})"},
    {"mixtral", "MixtralForCausalLM", AdjustMixtral},
    {"nemotron_h", "NemotronHForCausalLM", AdjustNemotronH, kNemotronDefaults, RenameNemotronKeys},
    {"olmo2", "Olmo2ForCausalLM", AdjustOlmo2, R"({"rms_norm_eps": 1e-5})"},
    {"olmo3", "Olmo3ForCausalLM", AdjustOlmo3, R"({"rms_norm_eps": 1e-5, "sliding_window": 4096})"},
    {"phi3", "Phi3ForCausalLM", AdjustPhi3},
    {"qwen2", "Qwen2ForCausalLM", AdjustQwen2},
    {"qwen3", "Qwen3ForCausalLM", AdjustQwen3},
    {"qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", AdjustQwen35Moe},
    {"qwen3_5_text", "Qwen3_5ForCausalLM", AdjustQwen35},
    {"qwen3_moe", "Qwen3MoeForCausalLM", AdjustQwen3Moe},
    {"qwen3_next", "Qwen3NextForCausalLM", AdjustQwen3Next},
    {"seed_oss", "SeedOssForCausalLM", AdjustSeedOss, R"({"head_dim": 128})"},
    {"smollm3", "SmolLM3ForCausalLM", AdjustSmolLm3,
     R"({"tie_word_embeddings": true, "rope_theta": 2000000.0})"},
};

constexpr Wrapper kWrappers[] = {
    {"gemma3", "Gemma3ForConditionalGeneration", kGemma3Defaults},
    {"gemma4", "Gemma4ForConditionalGeneration", R"({"tie_word_embeddings": true})"},
    {"gemma4_unified", "Gemma4UnifiedForConditionalGeneration", R"({"tie_word_embeddings": true})"},
    {"mistral3", "Mistral3ForConditionalGeneration", "{}"},
    {"qwen3_5", "Qwen3_5ForConditionalGeneration", "{}"},
    {"qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "{}"},
};

constexpr std::string_view kStreams = "a residual of several streams (hyper-connections)";
constexpr std::string_view kGemma3n =
    "four residual streams (AltUp), side paths of low rank (LAuReL) and embeddings for each layer";
constexpr std::string_view kDrafter =
    "layers that read the keys and values of the model that they draft for";
constexpr std::string_view kLlama4 =
    "experts whose input is scaled, windows in chunks and queries that grow with their position";
constexpr std::string_view kMuseGlimmer =
    "a gate on attention with a projection of its own, and embedding rows that are normed";

constexpr MissingFamily kMissing[] = {
    {"deepseek_v4", kStreams},
    {"falcon_h1", "attention and Mamba2 side by side in a layer"},
    {"gemma3n", kGemma3n},
    {"gemma3n_text", kGemma3n},
    {"gemma4_assistant", kDrafter},
    {"gemma4_unified_assistant", kDrafter},
    {"kimi_linear", "a delta rule with a decay for each column of its state (KDA)"},
    {"llama4", kLlama4},
    {"llama4_text", kLlama4},
    {"muse_glimmer", kMuseGlimmer},
    {"muse_glimmer_text", kMuseGlimmer},
    {"qwen4_exp", kStreams},
    {"qwen4_exp_text", kStreams},
};

}  // namespace

std::span<const MissingFamily> MissingFamilies() {
  return kMissing;
}

std::span<const Family> Families() {
  return kFamilies;
}

std::span<const Wrapper> Wrappers() {
  return kWrappers;
}

}  // namespace weft::convert
