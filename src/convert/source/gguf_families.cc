#include "convert/source/gguf_families.h"

#include <algorithm>
#include <map>

#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

// Copies a factor that is 1 where the file does not say.
Status CopyFactor(const char* key, const char* name, ConfigWriter* config) {
  ASSIGN_OR_RETURN(const double factor, config->Real(key, 0, 1e9, 1));
  if (factor > 0) config->out[name] = factor;  // llama.cpp takes 0 as not said
  return OkStatus();
}

// `layer_types` from the list of which layers slide. Files without one leave it to the family.
Status SlidingLayers(ConfigWriter* config) {
  constexpr const char* kKey = "attention.sliding_window_pattern";
  if (!config->Has(kKey)) return OkStatus();
  ASSIGN_OR_RETURN(const auto pattern, config->ByLayer(kKey, config->layers_));
  config->LayerTypes([&](uint64_t i) { return pattern[i] != 0; });
  return OkStatus();
}

Status AddGraniteFactors(ConfigWriter* config) {
  TRY(CopyFactor("embedding_scale", "embedding_multiplier", config));
  TRY(CopyFactor("residual_scale", "residual_multiplier", config));
  TRY(CopyFactor("logit_scale", "logits_scaling", config));
  // Not said, it is one over the root of a head's width, as elsewhere.
  if (!config->Has("attention.scale")) return OkStatus();
  return CopyFactor("attention.scale", "attention_multiplier", config);
}

std::string Block(uint64_t layer) {
  return "blk." + std::to_string(layer);
}

// The rows of a layer's matrix; an error that names the matrix where there is none.
Result<uint64_t> RowsOf(const std::string& name, const ConfigWriter& config) {
  const std::vector<uint64_t> shape = config.ShapeOf(name);
  if (shape.size() == 2 && shape[0] > 0) return shape[0];
  return Error(ErrorCode::kInvalidData,
               "'" + config.metadata().file() + "' has no matrix '" + name + "'.");
}

}  // namespace

Status AddCohere2(ConfigWriter* config) {
  Name(config, "cohere2", "Cohere2ForCausalLM");
  config->out["layer_norm_eps"] = config->out.at("rms_norm_eps");
  TRY(CopyFactor("logit_scale", "logit_scale", config));
  return config->Window();
}

Status AddErnie45(ConfigWriter* config) {
  Name(config, "ernie4_5", "Ernie4_5ForCausalLM");
  config->out["use_bias"] = config->HasTensor("blk.0.attn_q.bias");
  return OkStatus();
}

Status AddExaone4(ConfigWriter* config) {
  Name(config, "exaone4", "Exaone4ForCausalLM");
  TRY(config->Window());
  return SlidingLayers(config);
}

Status AddGlm4(ConfigWriter* config) {
  Name(config, "glm4", "Glm4ForCausalLM");
  return OkStatus();
}

Status AddGranite(ConfigWriter* config) {
  Name(config, "granite", "GraniteForCausalLM");
  config->out["mlp_bias"] = config->HasTensor("blk.0.ffn_gate.bias");
  return AddGraniteFactors(config);
}

Status AddHunyuan(ConfigWriter* config) {
  Name(config, "hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM");
  return OkStatus();
}

// Ministral 3, whose queries grow with their position, and Mistral Small 3.1, whose do not.
Status AddMistral3(ConfigWriter* config) {
  ASSIGN_OR_RETURN(const double growth, config->Real("attention.temperature_scale", 0, 1e3, 0));
  TRY(config->Window());
  if (growth == 0) {
    Name(config, "mistral", "MistralForCausalLM");
    return OkStatus();
  }
  Name(config, "ministral3", "Ministral3ForCausalLM");
  json::object& rope = config->out["rope_parameters"].as_object();
  rope["llama_4_scaling_beta"] = growth;
  ASSIGN_OR_RETURN(const double scale, config->Real("rope.scaling.yarn_log_multiplier", 0, 1e3, 0));
  if (scale > 0) {
    rope["mscale"] = 1.0;
    rope["mscale_all_dim"] = scale;
  }
  return OkStatus();
}

// OLMo 3 is OLMo 2 with a window in most layers.
Status AddOlmo2(ConfigWriter* config) {
  TRY(config->Window());
  if (!config->out.contains("sliding_window")) {
    Name(config, "olmo2", "Olmo2ForCausalLM");
    return OkStatus();
  }
  Name(config, "olmo3", "Olmo3ForCausalLM");
  return SlidingLayers(config);
}

Status AddSeedOss(ConfigWriter* config) {
  Name(config, "seed_oss", "SeedOssForCausalLM");
  config->out["attention_out_bias"] = config->HasTensor("blk.0.attn_output.bias");
  config->out["mlp_bias"] = config->HasTensor("blk.0.ffn_gate.bias");
  return OkStatus();
}

Status AddSmolLm3(ConfigWriter* config) {
  Name(config, "smollm3", "SmolLM3ForCausalLM");
  config->out["mlp_bias"] = config->HasTensor("blk.0.ffn_gate.bias");
  return OkStatus();
}

Status AddLfm2(ConfigWriter* config) {
  Name(config, "lfm2", "Lfm2ForCausalLM");
  ASSIGN_OR_RETURN(const uint64_t taps, config->Whole("shortconv.l_cache", 1));
  config->out["conv_L_cache"] = taps;
  config->out["conv_bias"] = false;
  config->out["block_auto_adjust_ff_dim"] = false;  // the width is the adjusted one
  TRY(config->HybridLayers("full_attention", "conv"));
  return OkStatus();
}

Status AddLfm2Moe(ConfigWriter* config) {
  TRY(AddLfm2(config));
  Name(config, "lfm2_moe", "Lfm2MoeForCausalLM");
  ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
  ASSIGN_OR_RETURN(const uint64_t dense, config->Whole("leading_dense_block_count", 0, 0));
  ASSIGN_OR_RETURN(const double scale, config->Real("expert_weights_scale", 0, 1e6, 1));
  config->out["moe_intermediate_size"] = width;
  config->out["num_dense_layers"] = dense;
  config->out["norm_topk_prob"] = true;
  config->out["routed_scaling_factor"] = scale > 0 ? scale : 1;
  config->out["use_expert_bias"] =
      config->HasTensor(Block(config->layers_ - 1) + ".exp_probs_b.bias");
  return AddRoutedExperts(config, "num_experts");
}

namespace {

// Of the layers of Mamba2.
struct MambaSizes {
  uint64_t width = 0, heads = 0, groups = 0, states = 0, taps = 0;
};

Result<MambaSizes> ReadMambaSizes(const ConfigWriter& config) {
  MambaSizes sizes;
  ASSIGN_OR_RETURN(sizes.width, config.Whole("ssm.inner_size", 1));
  ASSIGN_OR_RETURN(sizes.heads, config.Whole("ssm.time_step_rank", 1));
  ASSIGN_OR_RETURN(sizes.groups, config.Whole("ssm.group_count", 1));
  ASSIGN_OR_RETURN(sizes.states, config.Whole("ssm.state_size", 1));
  ASSIGN_OR_RETURN(sizes.taps, config.Whole("ssm.conv_kernel", 1));
  if (sizes.width % sizes.heads == 0) return sizes;
  return Error(ErrorCode::kInvalidData,
               "'" + config.metadata().file() + "' has " + std::to_string(sizes.width) +
                   " columns of Mamba2 ('" + config.Key("ssm.inner_size") +
                   "'); expected a multiple of its " + std::to_string(sizes.heads) + " heads ('" +
                   config.Key("ssm.time_step_rank") + "').");
}

}  // namespace

Status AddGraniteHybrid(ConfigWriter* config) {
  Name(config, "granitemoehybrid", "GraniteMoeHybridForCausalLM");
  TRY(AddGraniteFactors(config));
  ASSIGN_OR_RETURN(const auto first, config->HybridLayers("attention", "mamba"));
  const auto [attention, mamba] = first;
  config->out["attention_bias"] = config->HasTensor(Block(attention) + ".attn_q.bias");
  ASSIGN_OR_RETURN(const bool rotates,
                   config->metadata().Bool(config->Key("rope.scaling.finetuned"), false));
  config->out["position_embedding_type"] = rotates ? "rope" : "none";
  ASSIGN_OR_RETURN(const MambaSizes sizes, ReadMambaSizes(*config));
  if (sizes.width % config->hidden_ != 0) {
    return Error(ErrorCode::kInvalidData,
                 "'" + config->metadata().file() + "' has " + std::to_string(sizes.width) +
                     " columns of Mamba2 ('" + config->Key("ssm.inner_size") +
                     "'); expected a multiple of the hidden size " +
                     std::to_string(config->hidden_) + ".");
  }
  config->out["mamba_expand"] = sizes.width / config->hidden_;
  config->out["mamba_n_heads"] = sizes.heads;
  config->out["mamba_d_head"] = sizes.width / sizes.heads;
  config->out["mamba_n_groups"] = sizes.groups;
  config->out["mamba_d_state"] = sizes.states;
  config->out["mamba_d_conv"] = sizes.taps;
  config->out["mamba_conv_bias"] = config->HasTensor(Block(mamba) + ".ssm_conv1d.bias");
  config->out["mamba_proj_bias"] = config->HasTensor(Block(mamba) + ".ssm_in.bias");
  config->out["gate_up_packed"] = false;
  ASSIGN_OR_RETURN(const uint64_t experts, config->Whole("expert_count", 0, 0));
  const std::string mlp = experts > 0 ? "blk.0.ffn_gate_shexp.weight" : "blk.0.ffn_gate.weight";
  ASSIGN_OR_RETURN(const uint64_t shared, RowsOf(mlp, *config));
  config->out["shared_intermediate_size"] = shared;
  if (experts > 0) return AddRoutedExperts(config);
  config->out["num_local_experts"] = 0;
  return OkStatus();
}

namespace {

// What a layer of Nemotron-H is, by the tensors that it has.
const char* BlockOf(const std::string& prefix, const ConfigWriter& config) {
  if (config.HasTensor(prefix + ".ssm_in.weight")) return "mamba";
  if (config.HasTensor(prefix + ".attn_q.weight")) return "attention";
  if (config.HasTensor(prefix + ".ffn_gate_inp.weight")) return "moe";
  return config.HasTensor(prefix + ".ffn_up.weight") ? "mlp" : nullptr;
}

Status AddNemotronExperts(uint64_t layer, ConfigWriter* config) {
  TRY(AddRoutedExperts(config, "n_routed_experts"));
  ASSIGN_OR_RETURN(const uint64_t width, config->Whole("expert_feed_forward_length", 1));
  ASSIGN_OR_RETURN(const double scale, config->Real("expert_weights_scale", 0, 1e6, 1));
  ASSIGN_OR_RETURN(const bool normalized,
                   config->metadata().Bool(config->Key("expert_weights_norm"), true));
  ASSIGN_OR_RETURN(const uint64_t groups, config->Whole("expert_group_count", 0, 1));
  ASSIGN_OR_RETURN(const uint64_t top_groups, config->Whole("expert_group_used_count", 0, groups));
  config->out["moe_intermediate_size"] = width;
  config->out["routed_scaling_factor"] = scale > 0 ? scale : 1;
  config->out["norm_topk_prob"] = normalized;
  config->out["n_group"] = std::max<uint64_t>(groups, 1);
  config->out["topk_group"] = std::max<uint64_t>(top_groups, 1);
  const std::string shared = Block(layer) + ".ffn_up_shexp.weight";
  config->out["n_shared_experts"] = config->HasTensor(shared) ? 1 : 0;
  if (!config->HasTensor(shared)) return OkStatus();
  ASSIGN_OR_RETURN(config->out["moe_shared_expert_intermediate_size"], RowsOf(shared, *config));
  return OkStatus();
}

}  // namespace

Status AddNemotronH(ConfigWriter* config) {
  Name(config, "nemotron_h", "NemotronHForCausalLM");
  json::array types;
  std::map<std::string_view, uint64_t> first;  // layer of each kind
  for (uint64_t i = 0; i < config->layers_; ++i) {
    const char* block = BlockOf(Block(i), *config);
    if (block == nullptr) {
      return Error(ErrorCode::kInvalidData,
                   "'" + config->metadata().file() + "' has no tensors of '" + Block(i) +
                       "' that say what the layer is; expected ssm_in, attn_q, ffn_gate_inp or "
                       "ffn_up.");
    }
    first.try_emplace(block, i);
    types.emplace_back(block);
  }
  config->out["layers_block_type"] = std::move(types);
  ASSIGN_OR_RETURN(const MambaSizes sizes, ReadMambaSizes(*config));
  config->out["mamba_num_heads"] = sizes.heads;
  config->out["mamba_head_dim"] = sizes.width / sizes.heads;
  config->out["n_groups"] = sizes.groups;
  config->out["ssm_state_size"] = sizes.states;
  config->out["conv_kernel"] = sizes.taps;
  const auto has = [&](const char* kind, const char* tensor) {
    const auto found = first.find(kind);
    return found != first.end() && config->HasTensor(Block(found->second) + tensor);
  };
  config->out["use_conv_bias"] = has("mamba", ".ssm_conv1d.bias");
  config->out["use_bias"] = has("mamba", ".ssm_in.bias");
  config->out["attention_bias"] = has("attention", ".attn_q.bias");
  config->out["mlp_bias"] = has("mlp", ".ffn_up.bias");
  if (first.contains("mlp")) {
    ASSIGN_OR_RETURN(config->out["intermediate_size"],
                     RowsOf(Block(first["mlp"]) + ".ffn_up.weight", *config));
  }
  return first.contains("moe") ? AddNemotronExperts(first["moe"], config) : OkStatus();
}

}  // namespace weft::convert
