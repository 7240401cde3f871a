// Families: one row each in kFamilies, with a function that sets what differs from plain Llama.
// Adding a family is a row, a function here, and names in weight_plan.cc when its tensors are
// called otherwise.
#include "convert/model_config.h"

#include <algorithm>

namespace weft::convert {
namespace {

namespace json = boost::json;

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // the one class name that is a causal language model
  Status (*adjust)(const JsonReader&, ModelConfig*);
};

// Every layer attends to `sliding_window` positions when that is set.
Result<uint32_t> Window(const JsonReader& config) {
  ASSIGN_OR_RETURN(const uint64_t window, config.Whole("sliding_window", 0, 1 << 30, 0));
  return static_cast<uint32_t>(window);
}

// Qwen: a window only with use_sliding_window, and by layer_types or from layer max_window_layers
// on.
Status ReadQwenWindows(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool used, config.Bool("use_sliding_window", false));
  if (!used) return OkStatus();
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  ASSIGN_OR_RETURN(const uint64_t first,
                   config.Whole("max_window_layers", 0, 1 << 20, model->layer_count));
  ASSIGN_OR_RETURN(const json::array* types, config.Array("layer_types"));
  if (types != nullptr && types->size() != model->layer_count) {
    return Error(ErrorCode::kInvalidData, "'layer_types' in config.json has " +
                                              std::to_string(types->size()) + " entries for " +
                                              std::to_string(model->layer_count) + " layers.");
  }
  for (uint32_t i = 0; i < model->layer_count; ++i) {
    const bool sliding = types == nullptr ? i >= first : (*types)[i] == "sliding_attention";
    model->windows[i] = sliding ? window : 0;
  }
  return OkStatus();
}

Status AdjustLlama(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool attention_bias, config.Bool("attention_bias", false));
  ASSIGN_OR_RETURN(model->mlp_bias, config.Bool("mlp_bias", false));
  model->qkv_bias = model->output_bias = attention_bias;
  return OkStatus();
}

Status AdjustMistral(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const uint32_t window, Window(config));
  model->windows.assign(model->layer_count, window);
  return OkStatus();
}

Status AdjustPhi3(const JsonReader& config, ModelConfig* model) {
  model->packed_projections = true;
  return AdjustMistral(config, model);
}

Status AdjustQwen2(const JsonReader& config, ModelConfig* model) {
  model->qkv_bias = true;
  return ReadQwenWindows(config, model);
}

Status AdjustQwen3(const JsonReader& config, ModelConfig* model) {
  ASSIGN_OR_RETURN(const bool attention_bias, config.Bool("attention_bias", false));
  model->qkv_bias = model->output_bias = attention_bias;
  model->qk_norm = true;
  return ReadQwenWindows(config, model);
}

constexpr Family kFamilies[] = {
    {"llama", "LlamaForCausalLM", AdjustLlama}, {"mistral", "MistralForCausalLM", AdjustMistral},
    {"phi3", "Phi3ForCausalLM", AdjustPhi3},    {"qwen2", "Qwen2ForCausalLM", AdjustQwen2},
    {"qwen3", "Qwen3ForCausalLM", AdjustQwen3},
};

Error UnsupportedArchitecture(const std::string& named) {
  return Error(ErrorCode::kUnsupported, "The architecture '" + Printable(named) +
                                            "' is not supported; weft converts " +
                                            SupportedArchitectures() + ".");
}

Result<const Family*> FindFamily(const JsonReader& config) {
  ASSIGN_OR_RETURN(const std::string model_type, config.Text("model_type"));
  const auto* family = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                                    [&](const Family& f) { return f.model_type == model_type; });
  if (family == std::end(kFamilies)) return UnsupportedArchitecture(model_type);
  ASSIGN_OR_RETURN(const json::array* names, config.Array("architectures"));
  if (names == nullptr || names->empty()) return family;
  for (const json::value& name : *names) {
    if (name.is_string() && std::string_view(name.get_string()) == family->architecture) {
      return family;
    }
  }
  const json::value& first = names->front();
  return UnsupportedArchitecture(first.is_string() ? std::string(first.get_string())
                                                   : Excerpt(first));
}

Status ReadSizes(const JsonReader& config, ModelConfig* model) {
  const auto read = [&](std::string_view key, uint64_t most, uint32_t* out,
                        std::optional<uint64_t> if_absent = std::nullopt) -> Status {
    ASSIGN_OR_RETURN(const uint64_t value, config.Whole(key, 1, most, if_absent));
    *out = static_cast<uint32_t>(value);
    return OkStatus();
  };
  TRY(read("hidden_size", 1 << 20, &model->hidden_columns));
  TRY(read("intermediate_size", 1 << 22, &model->mlp_columns));
  TRY(read("num_hidden_layers", 4000, &model->layer_count));
  TRY(read("num_attention_heads", 1 << 14, &model->heads));
  TRY(read("num_key_value_heads", 1 << 14, &model->kv_heads, model->heads));
  if (model->heads % model->kv_heads != 0) {
    return Error(ErrorCode::kInvalidData, "config.json has " + std::to_string(model->heads) +
                                              " attention heads and " +
                                              std::to_string(model->kv_heads) +
                                              " key and value heads, which do not divide.");
  }
  if (!config.Has("head_dim") && model->hidden_columns % model->heads != 0) {
    return Error(ErrorCode::kInvalidData, "config.json has no 'head_dim', and its hidden size " +
                                              std::to_string(model->hidden_columns) +
                                              " is no multiple of its " +
                                              std::to_string(model->heads) + " heads.");
  }
  TRY(read("head_dim", 1 << 14, &model->head_columns, model->hidden_columns / model->heads));
  TRY(read("vocab_size", 1 << 24, &model->vocabulary));
  TRY(read("max_position_embeddings", 1 << 28, &model->context_length));
  if (uint64_t{model->heads} * model->head_columns > (1 << 22)) {
    return Error(ErrorCode::kInvalidData, "config.json has " + std::to_string(model->heads) +
                                              " heads of " + std::to_string(model->head_columns) +
                                              " columns; at most 2^22 in all.");
  }
  return OkStatus();
}

Status RefuseUnknownFeatures(const JsonReader& config) {
  if (config.Has("quantization_config")) {
    return Error(ErrorCode::kUnsupported,
                 "config.json has a 'quantization_config': checkpoints that are quantised already "
                 "are not converted. Use the original checkpoint with --quant q4 or q8.");
  }
  ASSIGN_OR_RETURN(const std::string activation, config.Text("hidden_act", "silu"));
  if (activation != "silu") {
    return Error(ErrorCode::kUnsupported, "The activation '" + Printable(activation) +
                                              "' in config.json is not supported; expected silu.");
  }
  return OkStatus();
}

}  // namespace

std::string SupportedArchitectures() {
  std::string text;
  for (const Family& family : kFamilies) {
    text += (text.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return text;
}

Result<ModelConfig> ParseModelConfig(std::string_view config_json) {
  ASSIGN_OR_RETURN(const json::value value, ParseJson(config_json, "config.json"));
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, "config.json is not an object.");
  const JsonReader config(value.get_object(), "config.json");
  ASSIGN_OR_RETURN(const Family* family, FindFamily(config));
  ModelConfig model;
  model.architecture = family->model_type;
  TRY(RefuseUnknownFeatures(config));
  TRY(ReadSizes(config, &model));
  ASSIGN_OR_RETURN(const double epsilon, config.Real("rms_norm_eps", 0, 0.1, 1e-6));
  model.rms_epsilon = static_cast<float>(epsilon);
  ASSIGN_OR_RETURN(model.tied_embeddings, config.Bool("tie_word_embeddings", false));
  ASSIGN_OR_RETURN(model.rope, ReadRope(config, model.head_columns));
  model.windows.assign(model.layer_count, 0);
  TRY(family->adjust(config, &model));
  return model;
}

}  // namespace weft::convert
