#include "convert/model/recurrent_families.h"

#include <algorithm>
#include <utility>

#include "convert/model/adjust.h"
#include "program/ir.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

struct LayerKind {
  std::string_view name;
  Mixer mixer = Mixer::kAttention;
  bool has_experts = false;
};

// What every layer is by `key`; `kinds` are those that the family has.
Status SetLayers(const JsonReader& config, const std::string& key,
                 std::initializer_list<LayerKind> kinds, ModelConfig* model) {
  ASSIGN_OR_RETURN(const json::array* types, config.Array(key));
  if (types == nullptr) return OkStatus();
  if (types->size() != model->layer_count()) {
    return Error(ErrorCode::kInvalidData, "'" + key + "' in config.json has " +
                                              std::to_string(types->size()) + " entries for " +
                                              std::to_string(model->layer_count()) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    const json::string* name = (*types)[i].if_string();
    bool known = false;
    std::string expected;
    for (const LayerKind& kind : kinds) {
      expected += (expected.empty() ? "" : " or ") + std::string(kind.name);
      if (name == nullptr || std::string_view(*name) != kind.name) continue;
      model->layers[i].mixer = kind.mixer;
      model->layers[i].has_experts = kind.has_experts;
      known = true;
    }
    if (!known) {
      return Error(ErrorCode::kUnsupported, "'" + key + "' in config.json names " +
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

// A key of `config` under another name, instead of what that name has.
void Rename(std::string_view from, std::string_view to, json::object* config) {
  const json::value* value = config->if_contains(from);
  if (value != nullptr && !value->is_null()) (*config)[to] = json::value(*value);
}

// The width of LFM2's MLP: two thirds of the one that is named, times a factor, rounded up.
Result<uint32_t> AdjustedWidth(const JsonReader& config, uint64_t width) {
  ASSIGN_OR_RETURN(const bool adjusts, config.Bool("block_auto_adjust_ff_dim", true));
  if (!adjusts) return static_cast<uint32_t>(width);
  ASSIGN_OR_RETURN(const double factor, config.Real("block_ffn_dim_multiplier", 1e-3, 16, 1));
  ASSIGN_OR_RETURN(const uint64_t unit, config.Whole("block_multiple_of", 1, 1 << 20, 256));
  const uint64_t two_thirds = 2 * width / 3;  // a whole number before the factor, too
  const auto scaled = static_cast<uint64_t>(factor * static_cast<double>(two_thirds));
  const uint64_t rounded = std::max<uint64_t>(1, (scaled + unit - 1) / unit) * unit;
  if (rounded <= (1 << 22)) return static_cast<uint32_t>(rounded);
  return Error(ErrorCode::kInvalidData, "config.json has an MLP of " + std::to_string(rounded) +
                                            " columns ('block_multiple_of', "
                                            "'block_ffn_dim_multiplier'); at most 2^22.");
}

// `full_attn_idxs` names the layers with attention where there is no `layer_types`.
Status SetConvLayers(const JsonReader& config, ModelConfig* model) {
  if (config.Has("layer_types")) {
    return SetLayers(config, "layer_types",
                     {{"conv", Mixer::kShortConv}, {"full_attention", Mixer::kAttention}}, model);
  }
  ASSIGN_OR_RETURN(const json::array* attending, config.Array("full_attn_idxs"));
  if (attending == nullptr) return OkStatus();
  for (LayerConfig& layer : model->layers) layer.mixer = Mixer::kShortConv;
  for (const json::value& layer : *attending) {
    if (!layer.is_int64() || layer.get_int64() < 0 || layer.get_int64() >= model->layer_count()) {
      return Error(ErrorCode::kInvalidData, "'full_attn_idxs' in config.json names the layer " +
                                                Excerpt(layer) + "; expected 0 to " +
                                                std::to_string(model->layer_count() - 1) + ".");
    }
    model->layers[static_cast<size_t>(layer.get_int64())].mixer = Mixer::kAttention;
  }
  return OkStatus();
}

Status SetShortConv(const JsonReader& config, ModelConfig* model) {
  model->qk_norm = QkNorm::kHead;
  model->activation = Activation::kSilu;  // whatever `hidden_act` is
  TRY(ReadCount(config, "conv_L_cache", 2, program::kMaxConvTaps, 3, &model->short_conv.taps));
  ASSIGN_OR_RETURN(model->short_conv.bias, config.Bool("conv_bias", false));
  return SetConvLayers(config, model);
}

// `time_step_limit` [least, most]; a most that is no number is infinite, as JSON cannot say.
Status ReadTimeSteps(const JsonReader& config, MambaConfig* mamba) {
  ASSIGN_OR_RETURN(const json::array* limit, config.Array("time_step_limit"));
  if (limit == nullptr) return OkStatus();
  const auto number = [&](size_t i) -> double {
    json::error_code failure;
    return (*limit)[i].is_number() ? (*limit)[i].to_number<double>(failure) : 0;
  };
  const bool fits = limit->size() == 2 && (*limit)[0].is_number() && number(0) >= 0 &&
                    number(0) <= 1e6 &&
                    (!(*limit)[1].is_number() || (number(1) > 0 && number(1) >= number(0)));
  if (!fits) {
    return Error(ErrorCode::kInvalidData, "'time_step_limit' in config.json is " +
                                              Excerpt(json::value(*limit)) +
                                              "; expected two numbers from 0 on that rise.");
  }
  mamba->dt_min = static_cast<float>(number(0));
  mamba->dt_max = number(1) > 1e30 ? 0 : static_cast<float>(number(1));
  return OkStatus();
}

Status CheckMamba(const MambaConfig& mamba) {
  const bool fits = mamba.heads % mamba.groups == 0 && mamba.width() <= (1 << 22) &&
                    mamba.conv_width() <= (1 << 22);
  if (fits) return OkStatus();
  return Error(ErrorCode::kInvalidData, "config.json has " + std::to_string(mamba.heads) +
                                            " heads of Mamba2 with " +
                                            std::to_string(mamba.head_columns) + " columns in " +
                                            std::to_string(mamba.groups) +
                                            " groups; expected a multiple of the groups, and at "
                                            "most 2^22 columns in all.");
}

// Names of the keys that say how large a layer of Mamba2 is.
struct MambaKeys {
  const char *heads, *head_columns, *groups, *states, *taps, *conv_bias, *bias;
};

Status ReadMamba(const JsonReader& config, const MambaKeys& keys, const MambaConfig& defaults,
                 MambaConfig* mamba) {
  constexpr uint64_t kMost = 1 << 14, kMostStates = program::kMaxStateColumns;
  TRY(ReadCount(config, keys.heads, 1, kMost, defaults.heads, &mamba->heads));
  TRY(ReadCount(config, keys.head_columns, 1, kMost, defaults.head_columns, &mamba->head_columns));
  TRY(ReadCount(config, keys.groups, 1, kMost, defaults.groups, &mamba->groups));
  TRY(ReadCount(config, keys.states, 1, kMostStates, defaults.state_columns,
                &mamba->state_columns));
  TRY(ReadCount(config, keys.taps, 2, program::kMaxConvTaps, 4, &mamba->taps));
  ASSIGN_OR_RETURN(mamba->conv_bias, config.Bool(keys.conv_bias, true));
  ASSIGN_OR_RETURN(mamba->bias, config.Bool(keys.bias, false));
  TRY(ReadTimeSteps(config, mamba));
  return CheckMamba(*mamba);
}

Status ExpectText(const JsonReader& config, const char* key, const char* expected) {
  ASSIGN_OR_RETURN(const std::string name, config.Text(key, expected));
  if (name == expected) return OkStatus();
  return Error(ErrorCode::kUnsupported, "'" + std::string(key) + "' in config.json is '" +
                                            Printable(name) + "'; weft converts " + expected + ".");
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
  for (uint32_t i = 0; i < model->layer_count(); ++i) {
    const bool is_full = (i + 1) % interval == 0;
    model->layers[i].mixer = is_full ? Mixer::kAttention : Mixer::kDeltaNet;
  }
  TRY(SetLayers(config, "layer_types",
                {{"linear_attention", Mixer::kDeltaNet}, {"full_attention", Mixer::kAttention}},
                model));
  return ReadDeltaNet(config, &model->delta_net);
}

Status RenameLfm2Keys(json::object* config) {
  Rename("norm_eps", "rms_norm_eps", config);
  Rename("block_ff_dim", "intermediate_size", config);
  Rename("theta", "rope_theta", config);
  Rename("tie_embedding", "tie_word_embeddings", config);
  return OkStatus();
}

Status AdjustLfm2(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(model->mlp_columns, AdjustedWidth(config, model->mlp_columns));
  return SetShortConv(config, model);
}

Status AdjustLfm2Moe(const JsonReader& config, ModelConfig* model) {
  TRY(SetShortConv(config, model));
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  ExpertConfig& experts = model->experts;
  ASSIGN_OR_RETURN(const uint64_t dense, config.Whole("num_dense_layers", 0, 1 << 20));
  for (uint32_t i = 0; i < std::min<uint64_t>(dense, model->layer_count()); ++i) {
    model->layers[i].has_experts = false;
  }
  experts.sigmoid = true;
  ASSIGN_OR_RETURN(experts.choice_bias, config.Bool("use_expert_bias", true));
  ASSIGN_OR_RETURN(experts.normalized, config.Bool("norm_topk_prob", true));
  ASSIGN_OR_RETURN(const double scale, config.Real("routed_scaling_factor", 1e-6, 1e6, 1));
  experts.scale = static_cast<float>(scale);
  return OkStatus();
}

// The letters of `hybrid_override_pattern`, one a layer, as `layers_block_type` names them.
std::string_view BlockOfLetter(char letter) {
  switch (letter) {
    case 'M':
      return "mamba";
    case '*':
      return "attention";
    case '-':
      return "mlp";
    case 'E':
      return "moe";
    default:
      return "";
  }
}

Status RenameNemotronKeys(json::object* config) {
  for (const char* epsilon : {"norm_eps", "layer_norm_epsilon"}) {
    Rename(epsilon, "rms_norm_eps", config);
  }
  const json::value* head = config->if_contains("head_dim");
  if (head == nullptr || head->is_null()) Rename("attention_head_dim", "head_dim", config);
  config->erase("hidden_act");  // not read: AdjustNemotronH
  const json::value* pattern = config->if_contains("hybrid_override_pattern");
  const bool has_types = config->contains("layers_block_type");
  if (!has_types && pattern != nullptr && pattern->is_string()) {
    json::array types;
    for (const char letter : pattern->get_string()) {
      const std::string_view block = BlockOfLetter(letter);
      if (block.empty()) {
        return Error(ErrorCode::kUnsupported,
                     "'hybrid_override_pattern' in config.json has the letter '" +
                         Printable(std::string(1, letter)) +
                         "'; expected M (Mamba2), * (attention), - (MLP) or E (experts).");
      }
      types.emplace_back(block);
    }
    (*config)["layers_block_type"] = std::move(types);
  }
  // Some files leave the number of layers to the list.
  const json::value* types = config->if_contains("layers_block_type");
  if (types != nullptr && types->is_array() && !config->contains("num_hidden_layers")) {
    (*config)["num_hidden_layers"] = types->get_array().size();
  }
  return OkStatus();
}

// What files may set otherwise and weft does not convert.
Status CheckNemotron(const JsonReader& config) {
  TRY(ExpectText(config, "mamba_hidden_act", "silu"));
  TRY(ExpectText(config, "mlp_hidden_act", "relu2"));
  if (!config.Has("layers_block_type")) {
    return Error(ErrorCode::kInvalidData,
                 "config.json has neither 'layers_block_type' nor 'hybrid_override_pattern', which "
                 "say what each layer is.");
  }
  if (!config.Has("moe_latent_size")) return OkStatus();
  return Error(ErrorCode::kUnsupported,
               "config.json sets 'moe_latent_size': experts behind a projection into a smaller row "
               "are not supported.");
}

// Experts of `moe_intermediate_size` columns, and one that every row goes to, of
// `moe_shared_expert_intermediate_size` columns.
Status SetNemotronExperts(const JsonReader& config, ModelConfig* model) {
  const std::vector<LayerConfig> layers = model->layers;
  ASSIGN_OR_RETURN(const uint64_t columns, config.Whole("moe_intermediate_size", 1, 1 << 22));
  TRY(SetExperts(config, columns, model));
  model->layers = layers;  // with experts where the file said so
  ASSIGN_OR_RETURN(const uint64_t count, config.Whole("n_shared_experts", 0, 1 << 8, 1));
  ASSIGN_OR_RETURN(const uint64_t shared,
                   config.Whole("moe_shared_expert_intermediate_size", 0,
                                (1 << 22) / std::max<uint64_t>(count, 1), 7688));
  model->experts.shared_columns = static_cast<uint32_t>(count > 0 ? shared : 0);
  ASSIGN_OR_RETURN(const double scale, config.Real("routed_scaling_factor", 1e-6, 1e6, 1));
  model->experts.scale = static_cast<float>(scale);
  return SetSigmoidChoice(config, model);
}

Status AdjustNemotronH(const JsonReader& config, ModelConfig* model) {
  TRY(CheckNemotron(config));
  model->activation = Activation::kRelu2;
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  TRY(SetAttentionBias(config, false, model));
  for (LayerConfig& layer : model->layers) layer.rotates = false;
  TRY(SetLayers(config, "layers_block_type",
                {{"mamba", Mixer::kMamba2},
                 {"linear_attention", Mixer::kMamba2},
                 {"attention", Mixer::kAttention},
                 {"full_attention", Mixer::kAttention},
                 {"mlp", Mixer::kNone},
                 {"moe", Mixer::kNone, true}},
                model));
  for (LayerConfig& layer : model->layers) layer.has_mlp = layer.mixer == Mixer::kNone;
  model->norms.mlp_in = model->norms.attention_in;  // a layer has one of them
  if (std::ranges::any_of(model->layers, &LayerConfig::has_experts)) {
    TRY(SetNemotronExperts(config, model));
  }
  TRY(ReadMamba(config,
                {"mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel",
                 "use_conv_bias", "use_bias"},
                {.heads = 128, .head_columns = 64, .groups = 8, .state_columns = 128},
                &model->mamba));
  model->mamba.norm_groups = model->mamba.groups;
  return OkStatus();
}

Status AdjustGraniteHybrid(const JsonReader& config, ModelConfig* model) {
  TRY(AdjustGranite(config, model));
  TRY(ExpectText(config, "hidden_act", "silu"));
  model->mlp_bias = false;
  // No key of Hugging Face: GGUF files have the two matrices apart.
  ASSIGN_OR_RETURN(model->packed_gate_up, config.Bool("gate_up_packed", true));
  ASSIGN_OR_RETURN(const std::string positions, config.Text("position_embedding_type", "none"));
  for (LayerConfig& layer : model->layers) {
    layer.rotates = positions == "rope";
    layer.mixer = Mixer::kMamba2;
  }
  TRY(SetLayers(config, config.Has("layer_types") ? "layer_types" : "layers_block_type",
                {{"mamba", Mixer::kMamba2},
                 {"attention", Mixer::kAttention},
                 {"linear_attention", Mixer::kMamba2},
                 {"full_attention", Mixer::kAttention}},
                model));
  // Where there are no experts, the one that all rows go to is the MLP.
  ASSIGN_OR_RETURN(const uint64_t shared,
                   config.Whole("shared_intermediate_size", 1, 1 << 22, 1024));
  ASSIGN_OR_RETURN(const uint64_t count, config.Whole("num_local_experts", 0, 4096));
  if (count > 0) {
    TRY(SetExperts(config, model->mlp_columns, model));
    model->experts.shared_columns = static_cast<uint32_t>(shared);
  } else {
    model->mlp_columns = static_cast<uint32_t>(shared);
  }
  ASSIGN_OR_RETURN(const uint64_t expand, config.Whole("mamba_expand", 1, 64, 2));
  const uint64_t width = expand * model->hidden_columns;
  MambaConfig& mamba = model->mamba;
  ASSIGN_OR_RETURN(const uint64_t heads, config.Whole("mamba_n_heads", 1, 1 << 14, 128));
  json::object sizes = config.object();
  if (const json::value* columns = sizes.if_contains("mamba_d_head");
      columns != nullptr && *columns == "auto") {
    sizes.erase("mamba_d_head");
  }
  TRY(ReadMamba(JsonReader(sizes, config.what()),
                {"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv",
                 "mamba_conv_bias", "mamba_proj_bias"},
                {.heads = 128,
                 .head_columns = static_cast<uint32_t>(width / heads),
                 .groups = 1,
                 .state_columns = 256},
                &mamba));
  if (mamba.width() == width) return OkStatus();
  return Error(ErrorCode::kInvalidData,
               "config.json has " + std::to_string(mamba.heads) + " 'mamba_n_heads' of " +
                   std::to_string(mamba.head_columns) + " columns, which are not 'mamba_expand' " +
                   std::to_string(expand) + " times its hidden size.");
}

}  // namespace weft::convert
