// What all families have in their config.json. What is special about each: families.cc.
#include "convert/model/parse_config.h"

#include <algorithm>

#include "convert/model/families.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

Error UnsupportedArchitecture(const std::string& named) {
  for (const MissingFamily& missing : MissingFamilies()) {
    if (missing.model_type != named) continue;
    return Error(ErrorCode::kUnsupported,
                 "The architecture '" + named + "' is not supported: it has " +
                     std::string(missing.lacks) + ", which weft cannot run.");
  }
  return Error(ErrorCode::kUnsupported, "The architecture '" + Printable(named) +
                                            "' is not supported; weft converts " +
                                            SupportedArchitectures() + ".");
}

// config.json without its wrapper, and with what its family takes for absent keys.
struct Decoder {
  json::object config;
  const Family* family = nullptr;
  bool wrapped = false;
};

// "Qwen3Model" of "Qwen3ForCausalLM": the class without an output head.
std::string HeadlessName(std::string_view architecture) {
  constexpr std::string_view kEnd = "ForCausalLM";
  if (!architecture.ends_with(kEnd)) return "";
  architecture.remove_suffix(kEnd.size());
  return std::string(architecture) + "Model";
}

Status CheckArchitecture(const JsonReader& config, std::string_view expected, bool embeds) {
  ASSIGN_OR_RETURN(const json::array* names, config.Array("architectures"));
  if (names == nullptr || names->empty()) return OkStatus();
  const std::string headless = HeadlessName(expected);
  for (const json::value& name : *names) {
    if (!name.is_string()) continue;
    if (std::string_view(name.get_string()) == expected) return OkStatus();
    if (headless.empty() || std::string_view(name.get_string()) != headless) continue;
    if (embeds) return OkStatus();
    return Error(ErrorCode::kUnsupported,
                 "config.json names '" + headless +
                     "', a model without an output head, which writes no text. To make embeddings "
                     "with it, say how its rows become one: --embedding mean or --embedding last.");
  }
  const json::value& first = names->front();
  return UnsupportedArchitecture(first.is_string() ? std::string(first.get_string())
                                                   : Excerpt(first));
}

// Keys that `object` lacks, or has as null.
Status AddDefaults(std::string_view defaults, json::object* object) {
  ASSIGN_OR_RETURN(const json::value value, ParseJson(defaults, "a family's defaults"));
  for (const auto& [key, known] : value.get_object()) {
    const auto found = object->find(key);
    if (found == object->end()) {
      object->emplace(key, known);
    } else if (found->value().is_null() && key != "sliding_window") {
      found->value() = known;  // of sliding_window null is a value: no window
    }
  }
  return OkStatus();
}

// The decoder that a model with towers for pictures holds; `config` itself when it is none.
Result<json::object> Unwrap(const JsonReader& config, bool embeds, bool* wrapped) {
  ASSIGN_OR_RETURN(const std::string model_type, config.Text("model_type"));
  const std::span<const Wrapper> wrappers = Wrappers();
  const auto wrapper = std::find_if(wrappers.begin(), wrappers.end(),
                                    [&](const Wrapper& w) { return w.model_type == model_type; });
  *wrapped = wrapper != wrappers.end();
  if (!*wrapped) return config.object();
  TRY(CheckArchitecture(config, wrapper->architecture, embeds));
  ASSIGN_OR_RETURN(const json::object* text, config.Object("text_config"));
  if (text == nullptr) {
    return Error(ErrorCode::kInvalidData, "config.json of a '" + model_type +
                                              "' has no 'text_config', which describes the part "
                                              "that weft converts.");
  }
  json::object decoder = *text;
  const auto tied = config.object().find("tie_word_embeddings");
  if (tied != config.object().end() && !tied->value().is_null())
    decoder[tied->key()] = tied->value();
  decoder.erase("architectures");
  TRY(AddDefaults(wrapper->defaults, &decoder));
  return decoder;
}

Result<Decoder> FindDecoder(const JsonReader& config, bool embeds) {
  Decoder decoder;
  ASSIGN_OR_RETURN(decoder.config, Unwrap(config, embeds, &decoder.wrapped));
  const JsonReader reader(decoder.config,
                          decoder.wrapped ? "'text_config' in config.json" : config.what());
  ASSIGN_OR_RETURN(const std::string model_type, reader.Text("model_type"));
  const std::span<const Family> families = Families();
  const auto family = std::find_if(families.begin(), families.end(),
                                   [&](const Family& f) { return f.model_type == model_type; });
  if (family == families.end()) return UnsupportedArchitecture(model_type);
  TRY(CheckArchitecture(reader, family->architecture, embeds));
  decoder.family = &*family;
  if (family->rename != nullptr) TRY(family->rename(&decoder.config));
  TRY(AddDefaults(family->defaults, &decoder.config));
  return decoder;
}

Status ReadSizes(const JsonReader& config, ModelConfig* model) {
  const auto read = [&](std::string_view key, uint64_t most, uint32_t* out,
                        std::optional<uint64_t> if_absent = std::nullopt) -> Status {
    ASSIGN_OR_RETURN(const uint64_t value, config.Whole(key, 1, most, if_absent));
    *out = static_cast<uint32_t>(value);
    return OkStatus();
  };
  TRY(read("hidden_size", 1 << 20, &model->hidden_columns));
  // A model whose layers are all sparse may have no dense width.
  const bool is_sparse = !config.Has("intermediate_size") && config.Has("moe_intermediate_size");
  TRY(read(is_sparse ? "moe_intermediate_size" : "intermediate_size", 1 << 22,
           &model->mlp_columns));
  uint32_t layers = 0;
  TRY(read("num_hidden_layers", 4000, &layers));
  model->layers.resize(layers);
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

Result<Activation> ReadActivation(const JsonReader& config) {
  // Gemma's files have both names; then the first one counts.
  ASSIGN_OR_RETURN(const std::string older, config.Text("hidden_act", "silu"));
  ASSIGN_OR_RETURN(const std::string name, config.Text("hidden_activation", older));
  if (name == "silu" || name == "swish") return Activation::kSilu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return Activation::kGeluTanh;
  if (name == "gelu") return Activation::kGelu;
  return Error(ErrorCode::kUnsupported, "The activation '" + Printable(name) +
                                            "' in config.json is not supported; expected silu, "
                                            "gelu or gelu_pytorch_tanh.");
}

}  // namespace

std::string SupportedArchitectures() {
  std::string text;
  for (const Family& family : Families()) {
    text += (text.empty() ? "" : ", ") + std::string(family.model_type);
  }
  return text;
}

Result<ModelConfig> ParseModelConfig(std::string_view config_json,
                                     std::optional<uint32_t> context_length, bool embeds) {
  ASSIGN_OR_RETURN(const json::value value, ParseJson(config_json, "config.json"));
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, "config.json is not an object.");
  const JsonReader whole(value.get_object(), "config.json");
  ASSIGN_OR_RETURN(const Decoder decoder, FindDecoder(whole, embeds));
  const JsonReader config(decoder.config, "config.json");
  ModelConfig model;
  model.architecture = decoder.family->model_type;
  model.wrapped = decoder.wrapped;
  model.embeds = embeds;
  TRY(ReadSizes(config, &model));
  ASSIGN_OR_RETURN(const double epsilon, config.Real("rms_norm_eps", 0, 0.1, 1e-6));
  model.rms_epsilon = static_cast<float>(epsilon);
  ASSIGN_OR_RETURN(model.tied_embeddings, config.Bool("tie_word_embeddings", false));
  ASSIGN_OR_RETURN(model.activation, ReadActivation(config));
  if (context_length && *context_length > model.context_length) {
    return Error(ErrorCode::kInvalidArgument, "A context of " + std::to_string(*context_length) +
                                                  " positions was asked for; the model has " +
                                                  std::to_string(model.context_length) +
                                                  " ('max_position_embeddings').");
  }
  ASSIGN_OR_RETURN(Ropes ropes, ReadRopes(config, model.head_columns, context_length));
  model.context_length = ropes.context_length.value_or(model.context_length);
  model.rope = std::move(ropes.rope);
  model.local_rope = std::move(ropes.local);
  model.notes = std::move(ropes.notes);
  TRY(decoder.family->adjust(config, &model));
  for (LayerConfig& layer : model.layers) {  // as the model, where the family said nothing else
    if (layer.head_columns == 0) layer.head_columns = model.head_columns;
    if (layer.kv_heads == 0) layer.kv_heads = model.kv_heads;
    if (layer.mlp_columns == 0) layer.mlp_columns = model.mlp_columns;
  }
  return model;
}

}  // namespace weft::convert
