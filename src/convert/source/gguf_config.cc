// One row each in kArchitectures, with a function that adds what the family's config.json has
// beyond Llama's.
#include "convert/source/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "convert/source/gguf_config_writer.h"
#include "convert/source/gguf_families.h"
#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

Status AddExperts(ConfigWriter* config) {
  TRY(AddRoutedExperts(config));
  ASSIGN_OR_RETURN(const uint64_t shared, config->Whole("expert_shared_count", 0, 0));
  if (shared == 0) return OkStatus();
  return Error(ErrorCode::kUnsupported, "'" + config->metadata().file() + "' has " +
                                            std::to_string(shared) +
                                            " shared experts, which weft does not convert.");
}

// Llama, Mistral and Mixtral are one architecture to llama.cpp.
Status AddLlama(ConfigWriter* config) {
  config->out["mlp_bias"] = config->HasTensor("blk.0.ffn_gate.bias");
  TRY(config->Window());
  ASSIGN_OR_RETURN(const uint64_t experts, config->Whole("expert_count", 0, 0));
  if (experts > 0) {
    Name(config, "mixtral", "MixtralForCausalLM");
    return AddExperts(config);
  }
  if (config->out.contains("sliding_window")) {
    Name(config, "mistral", "MistralForCausalLM");
  } else {
    Name(config, "llama", "LlamaForCausalLM");
  }
  return OkStatus();
}

Status AddQwen2(ConfigWriter* config) {
  Name(config, "qwen2", "Qwen2ForCausalLM");
  return OkStatus();
}

Status AddQwen3(ConfigWriter* config) {
  Name(config, "qwen3", "Qwen3ForCausalLM");
  return OkStatus();
}

Status AddQwen3Moe(ConfigWriter* config) {
  Name(config, "qwen3_moe", "Qwen3MoeForCausalLM");
  ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
  config->out["moe_intermediate_size"] = width;
  config->out["norm_topk_prob"] = true;
  return AddExperts(config);
}

// Gated DeltaNet in all layers but every `full_attention_interval`-th. ssm.* have Mamba's names:
// groups are key heads, the rank of the time step is the number of value heads, and the inner size
// is the width of all of those.
Status AddDeltaNet(ConfigWriter* config) {
  ASSIGN_OR_RETURN(const uint64_t key_heads, config->Whole("ssm.group_count", 1));
  ASSIGN_OR_RETURN(const uint64_t value_heads, config->Whole("ssm.time_step_rank", 1));
  ASSIGN_OR_RETURN(const uint64_t key_columns, config->Whole("ssm.state_size", 1));
  ASSIGN_OR_RETURN(const uint64_t value_width, config->Whole("ssm.inner_size", 1));
  ASSIGN_OR_RETURN(const uint64_t taps, config->Whole("ssm.conv_kernel", 1));
  ASSIGN_OR_RETURN(const uint64_t interval, config->Whole("full_attention_interval", 1, 4));
  if (value_width % value_heads != 0) {
    return Error(ErrorCode::kInvalidData,
                 "'" + config->metadata().file() + "' has " + std::to_string(value_heads) +
                     " value heads ('" + config->Key("ssm.time_step_rank") + "') in " +
                     std::to_string(value_width) + " columns ('" + config->Key("ssm.inner_size") +
                     "'), which do not divide.");
  }
  config->out["linear_num_key_heads"] = key_heads;
  config->out["linear_num_value_heads"] = value_heads;
  config->out["linear_key_head_dim"] = key_columns;
  config->out["linear_value_head_dim"] = value_width / value_heads;
  config->out["linear_conv_kernel_dim"] = taps;
  config->out["full_attention_interval"] = interval;
  // Biases are of layers with attention, which the first one is not.
  config->out["attention_bias"] =
      config->HasTensor("blk." + std::to_string(interval - 1) + ".attn_q.bias");
  json::object& rope = config->out["rope_parameters"].as_object();
  if (!rope.contains("partial_rotary_factor")) rope["partial_rotary_factor"] = 1.0;
  return OkStatus();
}

// Value heads lie so that head j reads key head j % key_heads.
Status AddQwen35(ConfigWriter* config) {
  Name(config, "qwen3_5_text", "Qwen3_5ForCausalLM");
  config->out["linear_value_heads_tiled"] = true;
  return AddDeltaNet(config);
}

Status AddGatedExperts(ConfigWriter* config) {
  ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
  ASSIGN_OR_RETURN(const uint64_t shared, config->Whole("expert_shared_feed_forward_length", 0, 0));
  config->out["moe_intermediate_size"] = width;
  config->out["shared_expert_intermediate_size"] = shared;
  config->out["norm_topk_prob"] = true;
  return AddRoutedExperts(config);
}

Status AddQwen35Moe(ConfigWriter* config) {
  TRY(AddQwen35(config));
  Name(config, "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM");
  return AddGatedExperts(config);
}

Status AddQwen3Next(ConfigWriter* config) {
  Name(config, "qwen3_next", "Qwen3NextForCausalLM");
  TRY(AddDeltaNet(config));
  return AddGatedExperts(config);
}

// llama.cpp's numbers of the functions that score experts.
constexpr uint64_t kSoftmax = 1, kSigmoid = 2;

Result<uint64_t> ScoresOfExperts(const ConfigWriter& config, uint64_t if_absent) {
  ASSIGN_OR_RETURN(const uint64_t scores, config.Whole("expert_gating_func", 0, if_absent));
  if (scores == kSoftmax || scores == kSigmoid) return scores;
  return Error(ErrorCode::kUnsupported, "'" + config.Key("expert_gating_func") + "' of '" +
                                            config.metadata().file() + "' is " +
                                            std::to_string(scores) +
                                            "; weft converts 1 (softmax) and 2 (sigmoids).");
}

// Experts behind dense layers, some of them for all rows.
Status AddSparseLayers(ConfigWriter* config) {
  const auto copy = [&](const char* key, const char* name, uint64_t if_absent) -> Status {
    ASSIGN_OR_RETURN(const uint64_t value, config->Whole(key, 0, if_absent));
    config->out[name] = value;
    return OkStatus();
  };
  TRY(copy("leading_dense_block_count", "first_k_dense_replace", 0));
  TRY(copy("expert_shared_count", "n_shared_experts", 0));
  TRY(copy("expert_group_count", "n_group", 1));
  TRY(copy("expert_group_used_count", "topk_group", 1));
  ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
  ASSIGN_OR_RETURN(const double scale, config->Real("expert_weights_scale", 1e-6, 1e6, 1));
  ASSIGN_OR_RETURN(const bool divides,
                   config->metadata().Bool(config->Key("expert_weights_norm"), false));
  config->out["moe_intermediate_size"] = width;
  config->out["routed_scaling_factor"] = scale;
  config->out["norm_topk_prob"] = divides;
  return AddRoutedExperts(config, "n_routed_experts");
}

Status AddGlm4Moe(ConfigWriter* config) {
  Name(config, "glm4_moe", "Glm4MoeForCausalLM");
  ASSIGN_OR_RETURN(const uint64_t scores, ScoresOfExperts(*config, kSigmoid));
  if (scores != kSigmoid) {
    return Error(ErrorCode::kUnsupported, "'" + config->metadata().file() +
                                              "' scores experts by softmax; weft converts "
                                              "glm4moe with sigmoids.");
  }
  config->out["use_qk_norm"] = config->HasTensor("blk.0.attn_q_norm.weight");
  return AddSparseLayers(config);
}

// Latent attention. Files of today have the widths of the absorbed form in key_length and
// value_length and those of a head in *_mla; older ones have those of a head alone.
Status AddLatent(ConfigWriter* config) {
  ASSIGN_OR_RETURN(const uint64_t rank, config->Whole("attention.kv_lora_rank", 1));
  ASSIGN_OR_RETURN(const uint64_t query_rank, config->Whole("attention.q_lora_rank", 0, 0));
  ASSIGN_OR_RETURN(const uint64_t rotated, config->Whole("rope.dimension_count", 2));
  const bool is_absorbed = config->Has("attention.key_length_mla");
  const std::string suffix = is_absorbed ? "_mla" : "";
  ASSIGN_OR_RETURN(const uint64_t key_columns,
                   config->Whole("attention.key_length" + suffix, rotated + 1));
  ASSIGN_OR_RETURN(const uint64_t value_columns,
                   config->Whole("attention.value_length" + suffix, 1));
  config->out["kv_lora_rank"] = rank;
  if (query_rank > 0) config->out["q_lora_rank"] = query_rank;
  config->out["qk_nope_head_dim"] = key_columns - rotated;
  config->out["qk_rope_head_dim"] = rotated;
  config->out["v_head_dim"] = value_columns;
  config->out["head_dim"] = rotated;
  json::object& rope = config->out["rope_parameters"].as_object();
  rope.erase("partial_rotary_factor");  // of all of the columns that rotate
  ASSIGN_OR_RETURN(const double growth,
                   config->Real("rope.scaling.yarn_log_multiplier", 0, 1e3, 0));
  if (growth > 0) {
    // 0.1 of what config.json calls mscale, there for queries and keys alike.
    rope["mscale"] = rope["mscale_all_dim"] = std::round(growth * 1e6) / 1e5;
  }
  return AddSparseLayers(config);
}

// Mistral Small 4: experts of a softmax, and queries that grow with their position.
Status AddMistral4(ConfigWriter* config) {
  Name(config, "mistral4", "Mistral4ForCausalLM");
  ASSIGN_OR_RETURN(const uint64_t scores, ScoresOfExperts(*config, kSoftmax));
  if (scores != kSoftmax) {
    return Error(ErrorCode::kUnsupported, "'" + config->metadata().file() +
                                              "' scores experts by sigmoids; weft converts "
                                              "mistral4 with a softmax.");
  }
  TRY(AddLatent(config));
  ASSIGN_OR_RETURN(const double growth, config->Real("attention.temperature_scale", 0, 1e3, 0));
  json::object& rope = config->out["rope_parameters"].as_object();
  if (growth > 0) rope["llama_4_scaling_beta"] = growth;
  return OkStatus();
}

// DeepSeek-V2 (softmax), DeepSeek-V3 and GLM-4.7-Flash (sigmoids).
Status AddDeepseek2(ConfigWriter* config) {
  // Older files do not say: a bias is there with sigmoids alone.
  const std::string last = "blk." + std::to_string(config->layers_ - 1);
  const bool has_bias = config->HasTensor(last + ".exp_probs_b.bias");
  ASSIGN_OR_RETURN(const uint64_t scores, ScoresOfExperts(*config, has_bias ? kSigmoid : kSoftmax));
  const bool is_v3 = scores == kSigmoid;
  Name(config, is_v3 ? "deepseek_v3" : "deepseek_v2",
       is_v3 ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM");
  if (config->Has("attention.temperature_scale")) {
    return Error(ErrorCode::kUnsupported,
                 "'" + config->metadata().file() + "' has '" +
                     config->Key("attention.temperature_scale") +
                     "', queries that grow with their position, which weft does not convert "
                     "from deepseek2 files.");
  }
  TRY(AddLatent(config));
  if (!is_v3 && config->out["n_group"] != 1) config->out["topk_method"] = "group_limited_greedy";
  return OkStatus();
}

Status AddPhi3(ConfigWriter* config) {
  Name(config, "phi3", "Phi3ForCausalLM");
  return config->Window();
}

// The largest model of both generations divides queries by the width of all heads instead of one.
Status AddGemma(ConfigWriter* config, uint64_t layers_of_largest) {
  uint64_t scalar = config->head_columns_;
  if (config->layers_ == layers_of_largest) scalar = config->hidden_ / config->heads_;
  ASSIGN_OR_RETURN(const double scale, config->Real("attention.scale", 0, 1e3,
                                                    1 / std::sqrt(static_cast<double>(scalar))));
  config->out["query_pre_attn_scalar"] =
      scale > 0 ? 1 / (scale * scale) : static_cast<double>(scalar);
  config->out["hidden_activation"] = "gelu_pytorch_tanh";
  config->out.erase("hidden_act");
  ASSIGN_OR_RETURN(const double attention_cap, config->Real("attn_logit_softcapping", 0, 1e6, 0));
  ASSIGN_OR_RETURN(const double final_cap, config->Real("final_logit_softcapping", 0, 1e6, 0));
  if (attention_cap > 0) config->out["attn_logit_softcapping"] = attention_cap;
  if (final_cap > 0) config->out["final_logit_softcapping"] = final_cap;
  return config->Window();
}

Status AddGemma2(ConfigWriter* config) {
  Name(config, "gemma2", "Gemma2ForCausalLM");
  config->LayerTypes([](uint64_t i) { return i % 2 == 0; });
  return AddGemma(config, 46);
}

Status AddGemma3(ConfigWriter* config) {
  Name(config, "gemma3_text", "Gemma3ForCausalLM");
  config->LayerTypes([](uint64_t i) { return i % 6 != 5; });
  ASSIGN_OR_RETURN(const double local, config->Real("rope.freq_base_swa", 1, 1e12, 10000));
  json::object full = config->out["rope_parameters"].as_object();
  config->out["rope_parameters"] = {
      {"full_attention", std::move(full)},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  return AddGemma(config, 62);
}

// What layers of Gemma 4 have otherwise than each other: sliding ones, those without a window, and
// those that share keys and values, whose MLP may be twice as wide.
Status AddGemma4Layers(const std::vector<bool>& sliding, ConfigWriter* config) {
  const uint64_t layers = config->layers_;
  ASSIGN_OR_RETURN(const uint64_t full_columns, config->Whole("attention.key_length", 1));
  ASSIGN_OR_RETURN(const uint64_t columns,
                   config->Whole("attention.key_length_swa", 1, full_columns));
  ASSIGN_OR_RETURN(const auto kv_heads, config->ByLayer("attention.head_count_kv", layers));
  json::object own;
  for (uint64_t i = 0; i < layers; ++i) {
    const json::object heads = {{"head_dim", sliding[i] ? columns : full_columns},
                                {"num_key_value_heads", kv_heads[i]}};
    own[std::to_string(i)] = heads;
  }
  config->out["head_dim"] = columns;
  config->out["per_layer_config"] = std::move(own);
  ASSIGN_OR_RETURN(const uint64_t sharing, config->Whole("attention.shared_kv_layers", 0, 0));
  config->out["num_kv_shared_layers"] = sharing;
  const auto full = std::find(sliding.begin(), sliding.end(), false);
  const std::string first_full = "blk." + std::to_string(full - sliding.begin());
  config->out["attention_k_eq_v"] = full != sliding.end() &&
                                    config->HasTensor(first_full + ".attn_k.weight") &&
                                    !config->HasTensor(first_full + ".attn_v.weight");
  ASSIGN_OR_RETURN(const auto widths, config->ByLayer("feed_forward_length", layers));
  const bool is_wider = sharing > 0 && sharing < layers && widths.back() == 2 * widths.front();
  for (uint64_t i = 0; i < layers; ++i) {
    const uint64_t times = is_wider && i + sharing >= layers ? 2 : 1;
    if (widths[i] == times * widths[0]) continue;
    return Error(ErrorCode::kUnsupported,
                 "'" + config->metadata().file() + "' has an MLP of " + std::to_string(widths[i]) +
                     " columns in layer " + std::to_string(i) + " and of " +
                     std::to_string(widths[0]) +
                     " in the first; weft converts equal ones, or twice as wide ones in layers "
                     "that share keys and values.");
  }
  config->out["intermediate_size"] = widths[0];
  config->out["use_double_wide_mlp"] = is_wider;
  return OkStatus();
}

Status AddGemma4Rotations(ConfigWriter* config) {
  ASSIGN_OR_RETURN(const double theta, config->Real("rope.freq_base", 1, 1e12, 1e6));
  ASSIGN_OR_RETURN(const double local, config->Real("rope.freq_base_swa", 1, 1e12, 1e4));
  ASSIGN_OR_RETURN(const uint64_t full_columns, config->Whole("attention.key_length", 1));
  ASSIGN_OR_RETURN(const uint64_t turning, config->TurningPairs("rope_freqs.weight", full_columns));
  const uint64_t columns = config->out["head_dim"].to_number<uint64_t>();
  ASSIGN_OR_RETURN(const uint64_t rotated, config->Whole("rope.dimension_count_swa", 2, columns));
  json::object sliding = {{"rope_type", "default"}, {"rope_theta", local}};
  if (rotated != columns) {
    sliding["partial_rotary_factor"] = static_cast<double>(rotated) / static_cast<double>(columns);
  }
  const double share = 2 * static_cast<double>(turning) / static_cast<double>(full_columns);
  config->out["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"rope_theta", theta}, {"partial_rotary_factor", share}}},
      {"sliding_attention", std::move(sliding)}};
  return OkStatus();
}

Status AddGemma4(ConfigWriter* config) {
  Name(config, "gemma4_text", "Gemma4ForCausalLM");
  ASSIGN_OR_RETURN(const auto pattern,
                   config->ByLayer("attention.sliding_window_pattern", config->layers_));
  std::vector<bool> sliding;
  for (const uint64_t slides : pattern) sliding.push_back(slides != 0);
  config->LayerTypes([&](uint64_t i) { return sliding[i]; });
  TRY(AddGemma4Layers(sliding, config));
  TRY(AddGemma4Rotations(config));
  config->out["hidden_activation"] = "gelu_pytorch_tanh";
  config->out.erase("hidden_act");
  ASSIGN_OR_RETURN(const double final_cap, config->Real("final_logit_softcapping", 0, 1e6, 0));
  if (final_cap > 0) config->out["final_logit_softcapping"] = final_cap;
  ASSIGN_OR_RETURN(const uint64_t own, config->Whole("embedding_length_per_layer_input", 0, 0));
  config->out["hidden_size_per_layer_input"] = own;
  const std::vector<uint64_t> table = config->ShapeOf("per_layer_token_embd.weight");
  if (own > 0 && !table.empty()) config->out["vocab_size_per_layer_input"] = table[0];
  ASSIGN_OR_RETURN(const uint64_t experts, config->Whole("expert_count", 0, 0));
  config->out["enable_moe_block"] = experts > 0;
  if (experts > 0) {
    ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
    config->out["moe_intermediate_size"] = width;
    TRY(AddRoutedExperts(config, "num_experts"));
  }
  return config->Window();
}

Status AddGptOss(ConfigWriter* config) {
  Name(config, "gpt_oss", "GptOssForCausalLM");
  config->LayerTypes([](uint64_t i) { return i % 2 == 0; });
  ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
  config->out["intermediate_size"] = width;
  // The model's own value; no GGUF file has it.
  json::object& rope = config->out["rope_parameters"].as_object();
  if (rope.at("rope_type") == "yarn") rope["truncate"] = false;
  TRY(config->Window());
  return AddExperts(config);
}

struct Architecture {
  std::string_view name;  // general.architecture
  Status (*add)(ConfigWriter*);
  GgufLayers layers = GgufLayers::kAlike;
};
constexpr Architecture kArchitectures[] = {
    {"cohere2", AddCohere2},
    {"deepseek2", AddDeepseek2},
    {"ernie4_5", AddErnie45},
    {"exaone4", AddExaone4},
    {"gemma2", AddGemma2},
    {"gemma3", AddGemma3},
    {"gemma4", AddGemma4, GgufLayers::kVaried},
    {"glm4", AddGlm4},
    {"glm4moe", AddGlm4Moe},
    {"gpt-oss", AddGptOss},
    {"granite", AddGranite},
    {"granitehybrid", AddGraniteHybrid, GgufLayers::kHybrid},
    {"hunyuan-dense", AddHunyuan},
    {"lfm2", AddLfm2, GgufLayers::kHybrid},
    {"lfm2moe", AddLfm2Moe, GgufLayers::kHybrid},
    {"llama", AddLlama},
    {"mistral3", AddMistral3},
    {"mistral4", AddMistral4},
    {"nemotron_h", AddNemotronH, GgufLayers::kHybrid},
    {"nemotron_h_moe", AddNemotronH, GgufLayers::kHybrid},
    {"olmo2", AddOlmo2},
    {"phi3", AddPhi3},
    {"qwen2", AddQwen2},
    {"qwen3", AddQwen3},
    {"qwen35", AddQwen35},
    {"qwen35moe", AddQwen35Moe},
    {"qwen3moe", AddQwen3Moe},
    {"qwen3next", AddQwen3Next},
    {"seed_oss", AddSeedOss},
    {"smollm3", AddSmolLm3},
};

}  // namespace

std::string SupportedGgufArchitectures() {
  std::string text;
  for (const Architecture& architecture : kArchitectures) {
    text += (text.empty() ? "" : ", ") + std::string(architecture.name);
  }
  return text;
}

Result<json::object> HuggingFaceConfig(const GgufModel& model) {
  ASSIGN_OR_RETURN(const std::string name, model.metadata.Text("general.architecture"));
  const auto* architecture =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const Architecture& known) { return known.name == name; });
  if (architecture == std::end(kArchitectures)) {
    return Error(ErrorCode::kUnsupported, "The architecture '" + Printable(name) + "' of '" +
                                              model.file + "' is not supported; weft converts " +
                                              SupportedGgufArchitectures() + " from GGUF files.");
  }
  ConfigWriter config(model, name, architecture->layers);
  TRY(config.Sizes());
  TRY(config.Rotation());
  TRY(architecture->add(&config));
  return std::move(config.out);
}

}  // namespace weft::convert
