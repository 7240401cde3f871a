#include "registry/file_selection.h"

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <map>
#include <set>

#include "registry/model_reference.h"
#include "registry/onnx_selection.h"

namespace weft::registry {
namespace json = boost::json;

namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kOneFileName = "model.safetensors";
constexpr size_t kMaxListed = 40;

std::string Lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text;
}

bool IsOurForm(const std::string& form) {
  return form == "f32" || form == "f16" || form == "q8" || form == "q4" || form == "q4s";
}

bool Has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Of a module of sentence-transformers: "1_Pooling/config.json".
bool IsModuleConfig(std::string_view name) {
  const size_t slash = name.find('/');
  const std::string_view folder = name.substr(0, slash);
  const size_t line = folder.find_first_not_of("0123456789");
  return line != std::string_view::npos && line > 0 && folder[line] == '_' &&
         name.substr(slash + 1) == "config.json";
}

// Configuration, tokenizer and template: at the root of the repository, or in `folder` of it.
bool IsTextFile(std::string_view name, std::string_view folder = "") {
  if (!name.starts_with(folder)) return false;
  name.remove_prefix(folder.size());
  if (name.starts_with("additional_chat_templates/")) return name.ends_with(".jinja");
  if (name.find('/') != std::string_view::npos) return IsModuleConfig(name);
  return name == "genai_config.json" || name == "config.json" || name == "generation_config.json" ||
         (name.starts_with("tokenizer") && name.ends_with(".json")) || name == "modules.json" ||
         name == "config_sentence_transformers.json" || name == "sentence_bert_config.json" ||
         name == "special_tokens_map.json" || name.starts_with("chat_template");
}

bool IsPickle(const std::string& name) {
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") ||
         name.ends_with(".ckpt");
}

// "x-Q4_K_M-00002-of-00003.gguf" -> "x-Q4_K_M"; "x.gguf" -> "x".
std::string GgufStem(const std::string& name) {
  std::string stem = name.substr(0, name.size() - 5);
  constexpr size_t kPartBytes = 15;  // "-00002-of-00003"
  if (stem.size() > kPartBytes) {
    const std::string part = stem.substr(stem.size() - kPartBytes);
    const bool digits = part.find_first_not_of("0123456789-of") == std::string::npos;
    if (digits && part[0] == '-' && part.substr(6, 4) == "-of-") {
      stem.resize(stem.size() - kPartBytes);
    }
  }
  return stem;
}

// GGUF models: stem -> files in order. Projectors of pictures are not language models.
std::map<std::string, std::vector<std::string>> GgufModels(const std::vector<std::string>& names) {
  std::map<std::string, std::vector<std::string>> models;
  for (const std::string& name : names) {
    const std::string file = Lower(name.substr(name.rfind('/') + 1));
    if (!file.ends_with(".gguf") || file.starts_with("mmproj") || file == "imatrix.gguf") continue;
    models[GgufStem(name)].push_back(name);
  }
  for (auto& [stem, files] : models) std::sort(files.begin(), files.end());
  return models;
}

// Whether `form` stands in the stem as a word of its own: q4_k is not in "x-q4_k_m".
bool HasForm(const std::string& stem, const std::string& form) {
  const std::string text = Lower(stem);
  const auto ends_word = [&](size_t at) {
    return at >= text.size() || std::string_view("-./").find(text[at]) != std::string_view::npos;
  };
  for (size_t at = text.find(form); at != std::string::npos; at = text.find(form, at + 1)) {
    if ((at == 0 || ends_word(at - 1)) && ends_word(at + form.size())) return true;
  }
  return false;
}

std::string Listed(const std::vector<std::string>& lines) {
  std::string text;
  for (size_t i = 0; i < lines.size() && i < kMaxListed; ++i) text += "\n    " + lines[i];
  if (lines.size() > kMaxListed) {
    text += "\n    and " + std::to_string(lines.size() - kMaxListed) + " more";
  }
  return text;
}

Error NoWeights(const std::vector<std::string>& names, const std::string& repository) {
  std::vector<std::string> pickles;
  bool is_adapter = false;
  for (const std::string& name : names) {
    if (IsPickle(name)) pickles.push_back(name);
    is_adapter = is_adapter || name == "adapter_config.json";
  }
  if (is_adapter) {
    return Error(ErrorCode::kUnsupported, "'" + repository +
                                              "' is an adapter (adapter_config.json), not a whole "
                                              "model; pull a model that it was merged into.");
  }
  if (!pickles.empty()) {
    return Error(ErrorCode::kUnsupported,
                 "'" + repository +
                     "' has its weights only as pickles, which run whatever code their author put "
                     "in when they are opened; weft does not read them. Look for the model as "
                     "safetensors or GGUF. There is:" +
                     Listed(pickles));
  }
  return Error(ErrorCode::kNotFound,
               "'" + repository + "' has neither " + kOneFileName + " nor " + kIndexName +
                   " nor a .gguf file nor an .onnx decoder. There is:" + Listed(names));
}

// "x-00001-of-00003.gguf" stands for three files.
Status CheckAllParts(const std::vector<std::string>& files) {
  const std::string& first = files.front();
  if (GgufStem(first).size() + 5 == first.size()) return OkStatus();
  const std::string stated = first.substr(first.size() - 10, 5);
  size_t count = 0;
  std::from_chars(stated.data(), stated.data() + stated.size(), count);
  if (files.size() == count) return OkStatus();
  return Error(ErrorCode::kNotFound, "Of the " + stated + " parts that the name '" +
                                         Printable(first) + "' promises there are " +
                                         std::to_string(files.size()) + ".");
}

Result<Selection> SelectGguf(const std::map<std::string, std::vector<std::string>>& models,
                             const std::string& form, const std::string& repository) {
  std::vector<std::string> stems;
  std::vector<std::string> matching;
  for (const auto& [stem, files] : models) {
    stems.push_back(stem + ".gguf");
    if (!form.empty() && HasForm(stem, form)) matching.push_back(stem);
  }
  Selection selection;
  if (matching.empty() && models.size() == 1 && (form.empty() || IsOurForm(form))) {
    matching.push_back(models.begin()->first);
  }
  if (matching.size() != 1) {
    const std::string what =
        form.empty()       ? "has several GGUF files; say which, like " + repository + ":Q4_K_M"
        : matching.empty() ? "has no GGUF file with '" + form + "' in its name"
                           : "has several GGUF files with '" + form + "' in their names";
    return Error(
        form.empty() || matching.size() > 1 ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound,
        "'" + repository + "' " + what + ". There is:" + Listed(stems));
  }
  selection.files = models.at(matching.front());
  TRY(CheckAllParts(selection.files));
  selection.model_file = selection.files.front();
  if (IsOurForm(form)) selection.quantisation = form;
  return selection;
}

Result<Selection> SelectOnnx(const std::vector<OnnxModel>& models,
                             const std::vector<std::string>& names, const std::string& form,
                             const std::string& repository) {
  ASSIGN_OR_RETURN(const OnnxModel model, ChooseOnnxModel(models, form, repository));
  Selection selection;
  for (const std::string& name : names) {
    if (IsTextFile(name, model.text_folder)) selection.files.push_back(name);
  }
  selection.files.insert(selection.files.end(), model.files.begin(), model.files.end());
  selection.model_file = model.file;
  return selection;
}

}  // namespace

Result<Selection> SelectFiles(const std::vector<std::string>& names, const std::string& form,
                              const std::string& repository) {
  const bool has_one_file = Has(names, kOneFileName);
  const bool has_index = Has(names, kIndexName);
  const auto gguf = GgufModels(names);
  const auto onnx = OnnxModels(names);
  if (has_one_file || has_index) {
    if (!form.empty() && !IsOurForm(form)) {
      if (!gguf.empty()) return SelectGguf(gguf, form, repository);
      if (!onnx.empty()) return SelectOnnx(onnx, names, form, repository);
      return Error(ErrorCode::kInvalidArgument,
                   "'" + repository + "' has safetensors and no GGUF file '" + form +
                       "'. After ':' comes q4, q8, f16 or f32 (weft's own conversion), or "
                       "nothing to keep the weights as they are.");
    }
    Selection selection;
    for (const std::string& name : names) {
      if (IsTextFile(name)) selection.files.push_back(name);
    }
    if (!Has(names, "config.json")) {
      return Error(ErrorCode::kNotFound, "'" + repository +
                                             "' has weights but no config.json, "
                                             "so that their form is unknown. There is:" +
                                             Listed(names));
    }
    if (has_one_file) {
      selection.files.emplace_back(kOneFileName);
    } else {
      selection.index_file = kIndexName;
    }
    if (!form.empty()) selection.quantisation = form;
    return selection;
  }
  if (!gguf.empty()) return SelectGguf(gguf, form, repository);
  if (!onnx.empty()) return SelectOnnx(onnx, names, form, repository);
  return NoWeights(names, repository);
}

Result<std::vector<std::string>> FilesOfIndex(std::string_view index_json,
                                              const std::vector<std::string>& names) {
  boost::system::error_code error;
  const json::value value = json::parse(index_json, error);
  const json::value* map =
      !error && value.is_object() ? value.as_object().if_contains("weight_map") : nullptr;
  if (map == nullptr || !map->is_object()) {
    return Error(ErrorCode::kInvalidData,
                 std::string(kIndexName) + " holds no JSON object 'weight_map'.");
  }
  std::set<std::string> named;
  for (const auto& [tensor, file] : map->as_object()) {
    if (!file.is_string() || !Has(names, std::string_view(file.as_string()))) {
      return Error(ErrorCode::kInvalidData,
                   std::string(kIndexName) + " puts the tensor '" + Printable(tensor) + "' into '" +
                       Printable(json::serialize(file)) + "', which the repository does not have.");
    }
    if (!file.as_string().ends_with(".safetensors")) {
      return Error(ErrorCode::kInvalidData, std::string(kIndexName) + " names '" +
                                                Printable(file.as_string()) +
                                                "', which is no safetensors file.");
    }
    named.emplace(file.as_string());
  }
  return std::vector<std::string>(named.begin(), named.end());
}

}  // namespace weft::registry
