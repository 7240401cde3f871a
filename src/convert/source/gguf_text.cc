#include "convert/source/gguf_text.h"

#include <algorithm>
#include <boost/json.hpp>

#include "text/tokenizer/added.h"
#include "text/tokenizer/vocabulary_spec.h"

namespace weft::convert {
namespace {

namespace json = boost::json;

constexpr uint64_t kMaxIds = 1 << 24;

Result<std::optional<int32_t>> TokenId(const GgufMetadata& metadata, const std::string& name) {
  const std::string key = "tokenizer.ggml." + name + "_token_id";
  if (!metadata.Has(key)) return std::optional<int32_t>();
  // llama.cpp writes "none" as -1 in 32 bits.
  ASSIGN_OR_RETURN(const double value, metadata.Real(key, -1, UINT32_MAX));
  if (value < 0 || value == UINT32_MAX) return std::optional<int32_t>();
  ASSIGN_OR_RETURN(const uint64_t id, metadata.Whole(key, 0, kMaxIds));
  return std::optional<int32_t>(static_cast<int32_t>(id));
}

Result<std::optional<bool>> Flag(const GgufMetadata& metadata, const std::string& key) {
  if (!metadata.Has(key)) return std::optional<bool>();
  ASSIGN_OR_RETURN(const bool value, metadata.Bool(key, false));
  return std::optional<bool>(value);
}

// By its architecture, or by its name where a finetune was written as something else.
bool IsPhi3(const GgufMetadata& metadata) {
  const auto text = [&metadata](const char* key) {
    const auto found = metadata.Text(key, "");
    std::string lower = found.ok() ? *found : "";
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    return lower;
  };
  const std::string name = text("general.name");
  return text("general.architecture") == "phi3" || name.find("phi-3") != std::string::npos ||
         name.find("phi3") != std::string::npos;
}

// T5's ids stand where the file names none.
Status ReadUnigram(const GgufMetadata& metadata, VocabularySpec* spec) {
  const std::string ggml = "tokenizer.ggml.";
  ASSIGN_OR_RETURN(spec->remove_extra_spaces,
                   metadata.Bool(ggml + "remove_extra_whitespaces", false));
  ASSIGN_OR_RETURN(const auto charsmap, metadata.Numbers(ggml + "precompiled_charsmap"));
  spec->charsmap.reserve(charsmap.size());
  for (const double byte : charsmap) {
    if (byte < -128 || byte > 255) {
      return Error(ErrorCode::kInvalidData,
                   "'" + metadata.file() + "': " + ggml + "precompiled_charsmap must be bytes.");
    }
    spec->charsmap.push_back(static_cast<uint8_t>(static_cast<int>(byte)));
  }
  if (!metadata.Has(ggml + "eos_token_id") && spec->tokens.size() > 1) spec->eos_id = 1;
  return OkStatus();
}

Result<VocabularySpec> ReadVocabulary(const GgufMetadata& metadata) {
  const std::string ggml = "tokenizer.ggml.";
  VocabularySpec spec;
  ASSIGN_OR_RETURN(spec.model, metadata.Text(ggml + "model"));
  ASSIGN_OR_RETURN(spec.pre, metadata.Text(ggml + "pre", ""));
  ASSIGN_OR_RETURN(spec.tokens, metadata.Texts(ggml + "tokens"));
  ASSIGN_OR_RETURN(spec.merges, metadata.Texts(ggml + "merges"));
  ASSIGN_OR_RETURN(const auto scores, metadata.Numbers(ggml + "scores"));
  for (const double score : scores) spec.scores.push_back(static_cast<float>(score));
  ASSIGN_OR_RETURN(const auto types, metadata.Numbers(ggml + "token_type"));
  for (const double type : types) {
    spec.types.push_back(type >= 0 && type <= 64 ? static_cast<int32_t>(type) : kUnused);
  }
  ASSIGN_OR_RETURN(spec.bos_id, TokenId(metadata, "bos"));
  ASSIGN_OR_RETURN(spec.eos_id, TokenId(metadata, "eos"));
  ASSIGN_OR_RETURN(spec.unknown_id, TokenId(metadata, "unknown"));
  ASSIGN_OR_RETURN(spec.add_bos, Flag(metadata, ggml + "add_bos_token"));
  ASSIGN_OR_RETURN(spec.add_eos, Flag(metadata, ggml + "add_eos_token"));
  if (spec.model == "whitespace") {
    ASSIGN_OR_RETURN(spec.lowercase, metadata.Bool(ggml + "normalizer.lowercase", false));
  }
  const bool is_unigram = spec.model == "t5";
  ASSIGN_OR_RETURN(spec.add_space_prefix, metadata.Bool(ggml + "add_space_prefix", !is_unigram));
  if (is_unigram) TRY(ReadUnigram(metadata, &spec));
  spec.strips_behind_tokens = spec.model == "llama" && IsPhi3(metadata);
  return spec;
}

Result<json::array> EndIds(const GgufMetadata& metadata, const VocabularySpec& spec) {
  std::vector<int32_t> ids;
  for (const char* name : {"eos", "eot", "eom"}) {
    ASSIGN_OR_RETURN(const auto id, TokenId(metadata, name));
    if (id && static_cast<size_t>(*id) < spec.tokens.size()) ids.push_back(*id);
  }
  const auto has = [&spec](std::string_view token) {
    return std::find(spec.tokens.begin(), spec.tokens.end(), token) != spec.tokens.end();
  };
  // Where a turn has several messages, <|end|> ends one of them.
  const bool has_messages = has("<|end|>") && ((has("<|return|>") && has("<|call|>")) ||
                                               (has("<|flush|>") && has("<|calls|>")));
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    const bool is_control = id < spec.types.size() && spec.types[id] == kControl;
    const bool ends =
        EndsTurnByName(token) || (token == "</s>" && is_control && !has("<|tool_response>"));
    if (ends && !(has_messages && token == "<|end|>")) ids.push_back(static_cast<int32_t>(id));
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return json::array(ids.begin(), ids.end());
}

Result<json::object> TokenizerConfig(const GgufMetadata& metadata, const VocabularySpec& spec) {
  json::object config{{"tokenizer_class", "PreTrainedTokenizerFast"},
                      {"clean_up_tokenization_spaces", false}};
  const std::pair<const char*, const char*> kNames[] = {{"bos", "bos_token"},
                                                        {"eos", "eos_token"},
                                                        {"unknown", "unk_token"},
                                                        {"padding", "pad_token"}};
  for (const auto& [name, key] : kNames) {
    ASSIGN_OR_RETURN(const auto id, TokenId(metadata, name));
    if (id && static_cast<size_t>(*id) < spec.tokens.size()) {
      config[key] = spec.tokens[static_cast<size_t>(*id)];
    }
  }
  ASSIGN_OR_RETURN(const std::string chat_template, metadata.Text("tokenizer.chat_template", ""));
  json::object named;
  ASSIGN_OR_RETURN(const auto names, metadata.Texts("tokenizer.chat_templates"));
  for (const std::string& name : names) {
    ASSIGN_OR_RETURN(const std::string source,
                     metadata.Text("tokenizer.chat_template." + name, ""));
    if (!source.empty()) named[name] = source;
  }
  if (!chat_template.empty()) named["default"] = chat_template;
  if (named.size() == 1 && named.contains("default")) {
    config["chat_template"] = chat_template;
  } else if (!named.empty()) {
    config["chat_template"] = std::move(named);
  }
  return config;
}

}  // namespace

Status AddGgufText(const GgufMetadata& metadata, Source* source) {
  if (!metadata.Has("tokenizer.ggml.model")) return OkStatus();
  ASSIGN_OR_RETURN(const VocabularySpec spec, ReadVocabulary(metadata));
  auto tokenizer = TokenizerJson(spec);
  if (!tokenizer.ok() && tokenizer.error().code() == ErrorCode::kUnsupported) {
    source->warnings.push_back(tokenizer.error().message());
    return OkStatus();
  }
  ASSIGN_OR_RETURN(
      source->files["tokenizer.json"],
      std::move(tokenizer).Context("While reading the vocabulary of '" + metadata.file() + "'"));
  ASSIGN_OR_RETURN(const json::object config, TokenizerConfig(metadata, spec));
  source->files["tokenizer_config.json"] = json::serialize(config);
  ASSIGN_OR_RETURN(const json::array ends, EndIds(metadata, spec));
  json::object generation;
  if (spec.bos_id) generation["bos_token_id"] = *spec.bos_id;
  if (!ends.empty()) generation["eos_token_id"] = ends;
  source->files["generation_config.json"] = json::serialize(generation);
  return OkStatus();
}

}  // namespace weft::convert
