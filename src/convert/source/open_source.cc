#include "convert/source/open_source.h"

#include "base/file.h"
#include "convert/source/embedding_source.h"
#include "convert/source/gguf.h"
#include "convert/source/gguf_source.h"
#include "convert/source/json_reader.h"
#include "convert/source/quantised_tensors.h"
#include "convert/source/safetensors.h"
#include "convert/source/source_folder.h"

namespace weft::convert {
namespace {

namespace fs = std::filesystem;

// Files that a package takes over as they are.
constexpr const char* kTextFiles[] = {"config.json",
                                      "tokenizer.json",
                                      "tokenizer_config.json",
                                      "special_tokens_map.json",
                                      "generation_config.json",
                                      "chat_template.jinja",
                                      "chat_template.json"};

Result<TextFiles> ReadTextFiles(const fs::path& folder) {
  ASSIGN_OR_RETURN(TextFiles files, ReadTexts(folder, kTextFiles));
  TRY(AddNamedTemplates(folder, &files));
  if (!files.contains("config.json")) {
    return Error(ErrorCode::kNotFound,
                 "'" + folder.string() +
                     "' has no config.json; weft converts folders in the Hugging Face layout "
                     "(config.json, tokenizer.json, *.safetensors).");
  }
  return files;
}

Result<Source> OpenFolder(const fs::path& folder) {
  Source source;
  const fs::path absolute = fs::absolute(folder).lexically_normal();
  source.name =
      (absolute.has_filename() ? absolute.filename() : absolute.parent_path().filename()).string();
  ASSIGN_OR_RETURN(source.files, ReadTextFiles(folder));
  ASSIGN_OR_RETURN(source.embedding_files, ReadEmbeddingFiles(folder));
  ASSIGN_OR_RETURN(source.tensors, OpenSafetensors(folder));
  TRY(PresentQuantised(source.files.at("config.json"), &source.tensors));
  return source;
}

// The GGUF model of a folder; the first part of a split one.
Result<std::optional<fs::path>> OnlyGguf(const fs::path& folder) {
  std::map<std::string, fs::path> models;  // by stem
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder, failure)) {
    if (entry.path().extension() != ".gguf") continue;
    fs::path& model = models[GgufStem(entry.path())];
    if (model.empty() || entry.path() < model) model = entry.path();
  }
  if (models.empty()) return std::optional<fs::path>();
  if (models.size() > 1) {
    return Error(ErrorCode::kInvalidArgument,
                 "'" + folder.string() + "' has " + std::to_string(models.size()) +
                     " GGUF models, '" + models.begin()->second.filename().string() + "' and '" +
                     std::next(models.begin())->second.filename().string() +
                     "' among them; name the file to convert.");
  }
  TRY(SourceFile(folder, models.begin()->second.filename().string()));  // no link leads out
  return std::optional<fs::path>(models.begin()->second);
}

}  // namespace

Result<Source> OpenSource(const fs::path& path) {
  std::error_code failure;
  if (fs::is_regular_file(path, failure)) return OpenGgufSource(path);
  if (!fs::is_directory(path, failure)) {
    return Error(ErrorCode::kNotFound,
                 "There is no folder and no GGUF file '" + path.string() + "'.");
  }
  if (fs::exists(path / "config.json", failure)) return OpenFolder(path);
  ASSIGN_OR_RETURN(const std::optional<fs::path> gguf, OnlyGguf(path));
  return gguf ? OpenGgufSource(*gguf) : OpenFolder(path);
}

}  // namespace weft::convert
