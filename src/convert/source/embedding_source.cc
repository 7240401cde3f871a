#include "convert/source/embedding_source.h"

#include <algorithm>

#include "base/file.h"
#include "convert/source/json_reader.h"

namespace weft::convert {
namespace {

namespace json = boost::json;
namespace fs = std::filesystem;

constexpr const char* kModules = "modules.json";
constexpr const char* kPrompts = "config_sentence_transformers.json";
constexpr const char* kLimits = "sentence_bert_config.json";
constexpr uint64_t kMaxConfigBytes = 1 << 20;
constexpr size_t kMostModules = 16;

Error Unsupported(const std::string& what) {
  return Error(ErrorCode::kUnsupported,
               what +
                   " Weft makes embeddings as the mean of all rows or as the last one "
                   "(--embedding mean, --embedding last).");
}

struct Module {
  std::string kind;  // "Transformer", the last word of its class' name
  std::string path;  // its folder; "": that of the checkpoint
};

// [{"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
Result<std::vector<Module>> ReadModules(const std::string& text) {
  ASSIGN_OR_RETURN(const json::value value, ParseJson(text, kModules));
  if (!value.is_array() || value.get_array().size() > kMostModules) {
    return Error(ErrorCode::kInvalidData, "modules.json is no list of at most " +
                                              std::to_string(kMostModules) + " modules.");
  }
  std::vector<Module> modules;
  for (const json::value& entry : value.get_array()) {
    if (!entry.is_object()) {
      return Error(ErrorCode::kInvalidData,
                   "modules.json holds " + Excerpt(entry) + "; expected a module.");
    }
    const JsonReader reader(entry.get_object(), kModules);
    ASSIGN_OR_RETURN(const std::string type, reader.Text("type"));
    Module& module = modules.emplace_back();
    module.kind = type.substr(type.rfind('.') + 1);
    ASSIGN_OR_RETURN(module.path, reader.Text("path", ""));
  }
  return modules;
}

const std::string* TextOf(const TextFiles& files, const std::string& name) {
  const auto found = files.find(name);
  return found == files.end() ? nullptr : &found->second;
}

// The parsed object of a file that need not be there: an empty one then.
Result<json::object> ObjectOf(const TextFiles& files, const std::string& name) {
  const std::string* text = TextOf(files, name);
  if (text == nullptr) return json::object();
  ASSIGN_OR_RETURN(json::value value, ParseJson(*text, name));
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, name + " is not an object.");
  return std::move(value.get_object());
}

// {"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false, ...}; the newer form is
// {"pooling_mode": "lasttoken"}.
Result<package::Pooling> PoolingOf(const json::object& config, const std::string& name) {
  constexpr std::string_view kPrefix = "pooling_mode_";
  std::vector<std::string> modes;
  for (const auto& entry : config) {
    const std::string_view key = entry.key();
    if (key == "pooling_mode" && entry.value().is_string())
      modes.emplace_back(entry.value().get_string());
    const bool is_set = entry.value().is_bool() && entry.value().get_bool();
    if (key.starts_with(kPrefix) && is_set) modes.emplace_back(key.substr(kPrefix.size()));
  }
  std::ranges::sort(modes);
  const auto again = std::unique(modes.begin(), modes.end());
  modes.erase(again, modes.end());
  if (modes.size() != 1) {
    return Unsupported(name + " names " + std::to_string(modes.size()) +
                       " ways of pooling; expected one.");
  }
  if (modes[0] == "mean_tokens" || modes[0] == "mean") return package::Pooling::kMean;
  if (modes[0] == "lasttoken") return package::Pooling::kLast;
  return Unsupported("The pooling '" + Printable(modes[0]) + "' in " + name + " is not supported.");
}

Status ReadPrompts(const TextFiles& files, package::Embedding* embedding) {
  ASSIGN_OR_RETURN(const json::object config, ObjectOf(files, kPrompts));
  const JsonReader reader(config, kPrompts);
  ASSIGN_OR_RETURN(const json::object* prompts, reader.Object("prompts"));
  for (const auto& entry : prompts == nullptr ? json::object() : *prompts) {
    if (!entry.value().is_string()) {
      return Error(ErrorCode::kInvalidData, "'prompts' in " + std::string(kPrompts) + " holds " +
                                                Excerpt(entry.value()) + "; expected a text.");
    }
    embedding->prompts.emplace(std::string(entry.key()), std::string(entry.value().get_string()));
  }
  ASSIGN_OR_RETURN(embedding->default_prompt, reader.Text("default_prompt_name", ""));
  return OkStatus();
}

// `asked`: how rows become one vector whatever the files say of it.
Result<FoundEmbedding> ReadSentenceTransformers(const TextFiles& files,
                                                std::optional<package::Pooling> asked) {
  FoundEmbedding found;
  found.embedding.normalize = false;
  ASSIGN_OR_RETURN(const std::vector<Module> modules, ReadModules(*TextOf(files, kModules)));
  std::optional<package::Pooling> pooling = asked;
  for (const Module& module : modules) {
    if (module.kind == "Normalize") found.embedding.normalize = true;
    if (module.kind == "Transformer" || module.kind == "Normalize") continue;
    if (module.kind != "Pooling") {
      return Unsupported("modules.json names a module '" + Printable(module.kind) +
                         "', which weft cannot run.");
    }
    const std::string name = module.path + "/config.json";
    ASSIGN_OR_RETURN(const json::object config, ObjectOf(files, name));
    if (!pooling) {
      ASSIGN_OR_RETURN(pooling, PoolingOf(config, name));
    }
    const json::value* with_prompt = config.if_contains("include_prompt");
    if (pooling == package::Pooling::kMean && with_prompt != nullptr && *with_prompt == false)
      return Unsupported(name + " leaves the rows of prompts out of the mean.");
  }
  if (!pooling) return Unsupported("modules.json names no module that pools rows.");
  found.embedding.pooling = *pooling;
  TRY(ReadPrompts(files, &found.embedding));
  ASSIGN_OR_RETURN(const json::object limits, ObjectOf(files, kLimits));
  const JsonReader reader(limits, kLimits);
  ASSIGN_OR_RETURN(const bool lowers, reader.Bool("do_lower_case", false));
  if (lowers) {
    return Error(ErrorCode::kUnsupported, std::string(kLimits) +
                                              " has texts lower-cased before they become tokens, "
                                              "which weft does not do.");
  }
  ASSIGN_OR_RETURN(const uint64_t limit, reader.Whole("max_seq_length", 1, 1 << 28, 0));
  if (limit > 0) found.token_limit = static_cast<uint32_t>(limit);
  return found;
}

// Those of llama.cpp.
Result<std::optional<package::Pooling>> GgufPooling(const JsonReader& config) {
  ASSIGN_OR_RETURN(const uint64_t type, config.Whole("gguf_pooling_type", 0, 100, 0));
  if (type == 0) return std::optional<package::Pooling>();
  if (type == 1) return std::optional(package::Pooling::kMean);
  if (type == 3) return std::optional(package::Pooling::kLast);
  return Unsupported("The file's pooling type is " + std::to_string(type) +
                     (type == 2   ? " (the row of a first token)"
                      : type == 4 ? " (a ranking of texts)"
                                  : "") +
                     ".");
}

// {"is_matryoshka": true, "matryoshka_dimensions": [256, 512]} of config.json, as vLLM reads it.
Status ReadMatryoshka(const JsonReader& config, package::Embedding* embedding) {
  ASSIGN_OR_RETURN(embedding->matryoshka, config.Bool("is_matryoshka", embedding->matryoshka));
  ASSIGN_OR_RETURN(const json::array* dimensions, config.Array("matryoshka_dimensions"));
  if (dimensions == nullptr) return OkStatus();
  embedding->matryoshka = true;
  for (const json::value& entry : *dimensions) {
    if (!entry.is_int64() || entry.get_int64() < 1 || entry.get_int64() > (1 << 20)) {
      return Error(ErrorCode::kInvalidData, "'matryoshka_dimensions' in config.json holds " +
                                                Excerpt(entry) + "; expected a whole number.");
    }
    embedding->dimensions.push_back(static_cast<uint32_t>(entry.get_int64()));
  }
  std::ranges::sort(embedding->dimensions);
  const auto again = std::unique(embedding->dimensions.begin(), embedding->dimensions.end());
  embedding->dimensions.erase(again, embedding->dimensions.end());
  return OkStatus();
}

// A decoder whose rows see those behind them is another model.
Status CheckCausal(const JsonReader& config) {
  ASSIGN_OR_RETURN(const bool is_causal, config.Bool("is_causal", true));
  if (is_causal) return OkStatus();
  return Error(ErrorCode::kUnsupported,
               "config.json has 'is_causal' false: tokens attend to those behind them, too, which "
               "weft does not do.");
}

}  // namespace

Result<TextFiles> ReadEmbeddingFiles(const fs::path& folder) {
  constexpr const char* kNames[] = {kModules, kPrompts, kLimits};
  ASSIGN_OR_RETURN(TextFiles files, ReadTexts(folder, kNames));
  if (TextOf(files, kModules) == nullptr) return TextFiles();
  ASSIGN_OR_RETURN(const std::vector<Module> modules, ReadModules(files.at(kModules)));
  for (const Module& module : modules) {
    if (module.path.empty()) continue;
    const auto inner = SourceFile(folder, module.path);
    if (!inner.ok() && inner.error().code() == ErrorCode::kNotFound) continue;
    if (!inner.ok()) return inner.error();
    const auto path = SourceFile(*inner, "config.json");
    if (!path.ok() && path.error().code() == ErrorCode::kNotFound) continue;
    if (!path.ok()) return path.error();
    ASSIGN_OR_RETURN(files[module.path + "/config.json"], ReadTextFile(*path, kMaxConfigBytes));
  }
  return files;
}

Result<std::optional<FoundEmbedding>> FindEmbedding(const Source& source,
                                                    const EmbeddingOptions& asked) {
  if (asked.none) return std::optional<FoundEmbedding>();
  ASSIGN_OR_RETURN(const json::value value,
                   ParseJson(source.files.at("config.json"), "config.json"));
  if (!value.is_object()) return Error(ErrorCode::kInvalidData, "config.json is not an object.");
  const JsonReader config(value.get_object(), "config.json");
  std::optional<FoundEmbedding> found;
  if (source.embedding_files.contains(kModules)) {
    ASSIGN_OR_RETURN(found, ReadSentenceTransformers(source.embedding_files, asked.pooling));
  } else if (asked.pooling) {
    found.emplace().embedding.pooling = *asked.pooling;
  } else {
    ASSIGN_OR_RETURN(const std::optional<package::Pooling> pooling, GgufPooling(config));
    if (pooling) found.emplace().embedding.pooling = *pooling;
  }
  if (!found) return found;
  TRY(CheckCausal(config));
  found->embedding.matryoshka = asked.matryoshka;
  TRY(ReadMatryoshka(config, &found->embedding));
  return found;
}

}  // namespace weft::convert
