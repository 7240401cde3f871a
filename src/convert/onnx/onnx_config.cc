#include "convert/onnx/onnx_config.h"

#include "base/file.h"
#include "convert/source/json_reader.h"
#include "convert/source/source_folder.h"

namespace weft::convert {
namespace {

constexpr uint64_t kMaxContext = 1 << 27;
constexpr uint64_t kMaxVocabulary = 1 << 24;

constexpr const char* kTextFiles[] = {"config.json",
                                      "genai_config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "generation_config.json",
                                      "chat_template.jinja",
                                      "special_tokens_map.json",
                                      "chat_template.json"};

Result<const boost::json::object*> TopObject(const boost::json::value& value,
                                             const std::string& file) {
  if (value.is_object()) return &value.as_object();
  return Error(ErrorCode::kInvalidData, file + " is " + Excerpt(value) + "; expected an object.");
}

Status ReadSizes(const JsonReader& reader, std::string_view context_key, OnnxConfig* config) {
  ASSIGN_OR_RETURN(const uint64_t context, reader.Whole(context_key, 1, kMaxContext));
  ASSIGN_OR_RETURN(const uint64_t vocabulary, reader.Whole("vocab_size", 1, kMaxVocabulary, 0));
  config->context_length = static_cast<uint32_t>(context);
  config->vocabulary = static_cast<uint32_t>(vocabulary);
  return OkStatus();
}

Result<OnnxConfig> FromGenai(const std::string& text) {
  const std::string file = "genai_config.json";
  ASSIGN_OR_RETURN(const boost::json::value value, ParseJson(text, file));
  ASSIGN_OR_RETURN(const boost::json::object* top, TopObject(value, file));
  ASSIGN_OR_RETURN(const boost::json::object* model, JsonReader(*top, file).Object("model"));
  if (model == nullptr) {
    return Error(ErrorCode::kInvalidData, file + " has no object 'model'.");
  }
  const JsonReader reader(*model, file + ", 'model'");
  OnnxConfig config;
  ASSIGN_OR_RETURN(config.architecture, reader.Text("type", "unknown"));
  TRY(ReadSizes(reader, "context_length", &config));
  return config;
}

Result<OnnxConfig> FromConfig(const std::string& text) {
  const std::string file = "config.json";
  ASSIGN_OR_RETURN(const boost::json::value value, ParseJson(text, file));
  ASSIGN_OR_RETURN(const boost::json::object* top, TopObject(value, file));
  const JsonReader outer(*top, file);
  // Models that also see or hear keep the decoder's values apart.
  ASSIGN_OR_RETURN(const boost::json::object* text_config, outer.Object("text_config"));
  const JsonReader reader(text_config == nullptr ? *top : *text_config, file);
  OnnxConfig config;
  ASSIGN_OR_RETURN(config.architecture, outer.Text("model_type", "unknown"));
  TRY(ReadSizes(reader, "max_position_embeddings", &config));
  return config;
}

// The ids that end an answer, where the server looks for them. genai_config.json was parsed.
Result<std::string> GenerationConfig(const std::string& genai) {
  ASSIGN_OR_RETURN(const boost::json::value value, ParseJson(genai, "genai_config.json"));
  boost::json::object out;
  const auto* top = value.if_object();
  const auto* model = top == nullptr ? nullptr : top->if_contains("model");
  if (model != nullptr && model->is_object()) {
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"}) {
      if (const auto* id = model->as_object().if_contains(key)) out[key] = *id;
    }
  }
  return boost::json::serialize(out);
}

}  // namespace

Result<TextFiles> ReadOnnxTexts(const std::filesystem::path& folder) {
  ASSIGN_OR_RETURN(TextFiles files, ReadTexts(folder, kTextFiles));
  TRY(AddNamedTemplates(folder, &files));
  if (const auto genai = files.find("genai_config.json");
      genai != files.end() && !files.contains("generation_config.json")) {
    ASSIGN_OR_RETURN(std::string generation, GenerationConfig(genai->second));
    files.emplace("generation_config.json", std::move(generation));
  }
  return files;
}

Result<OnnxConfig> ReadOnnxConfig(const TextFiles& files) {
  const auto genai = files.find("genai_config.json");
  if (genai != files.end()) return FromGenai(genai->second);
  const auto config = files.find("config.json");
  if (config != files.end()) return FromConfig(config->second);
  return Error(ErrorCode::kNotFound,
               "The folder has neither config.json nor genai_config.json, which say how long a "
               "context the model was made for.");
}

}  // namespace weft::convert
