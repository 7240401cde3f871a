#include "apps/text_tools.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <istream>
#include <iterator>
#include <ostream>

#include "base/file.h"
#include "convert/source/gguf.h"
#include "convert/source/gguf_text.h"
#include "convert/source/source_folder.h"
#include "package/package.h"
#include "registry/library.h"
#include "registry/registry_settings.h"

namespace weft::apps {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

using Texts = std::map<std::string, std::string>;

constexpr size_t kMaxJsonDepth = 64;

Result<Texts> ReadGgufTexts(const fs::path& path) {
  ASSIGN_OR_RETURN(const convert::GgufModel model, convert::OpenGguf(path));
  convert::Source source;
  TRY(convert::AddGgufText(model.metadata, &source));
  if (!source.files.contains("tokenizer.json") && !source.warnings.empty()) {
    return Error(ErrorCode::kUnsupported, source.warnings.front());
  }
  return std::move(source.files);
}

Result<Texts> ReadPackageTexts(const fs::path& folder) {
  ASSIGN_OR_RETURN(const package::Package package, package::Package::Open(folder));
  Texts texts;
  for (const char* name : api::kTextFiles) {
    if (!package.manifest.files.contains(name)) continue;
    ASSIGN_OR_RETURN(texts[name], package.ReadFile(name));
  }
  return texts;
}

bool IsTextName(const std::string& name) {
  return std::ranges::find(api::kTextFiles, name) != std::end(api::kTextFiles);
}

// The one JSON value of `text`, which begins on line `first_line` of the input.
Result<json::value> ParseJson(std::string_view text, size_t first_line) {
  json::parse_options options;
  options.max_depth = kMaxJsonDepth;
  json::stream_parser parser(json::storage_ptr(), options);
  boost::system::error_code error;
  const size_t read = parser.write_some(text.data(), text.size(), error);
  // Only blanks may follow.
  if (!error && parser.done() &&
      text.find_first_not_of(" \t\r\n", read) != std::string_view::npos) {
    error = json::error::extra_data;
  }
  if (!error) parser.finish(error);
  if (!error) return parser.release();
  const size_t line =
      first_line + static_cast<size_t>(
                       std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(read), '\n'));
  return Error(ErrorCode::kInvalidData, "Line " + std::to_string(line) +
                                            " of the input is not JSON: " + error.message() + ".");
}

}  // namespace

Result<Texts> ReadModelTexts(const std::string& source, const std::string& file_kind) {
  std::error_code ignored;
  const fs::path path = source;
  if (fs::is_regular_file(path, ignored)) {
    if (path.extension() == ".gguf") return ReadGgufTexts(path);
    const std::string name = path.filename().string();
    ASSIGN_OR_RETURN(std::string text, ReadTextFile(path));
    return Texts{{IsTextName(name) ? name : file_kind, std::move(text)}};
  }
  if (fs::is_directory(path, ignored) && !fs::exists(path / "weft.json", ignored)) {
    ASSIGN_OR_RETURN(Texts texts, convert::ReadTexts(path, api::kTextFiles));
    TRY(convert::AddNamedTemplates(path, &texts));
    return texts;
  }
  ASSIGN_OR_RETURN(const fs::path folder,
                   registry::FindPackage(registry::LibraryFolder(std::getenv), source));
  return ReadPackageTexts(folder);
}

Result<Tokenizer> ReadModelTokenizer(const std::string& source) {
  ASSIGN_OR_RETURN(const auto texts, ReadModelTexts(source, "tokenizer.json"));
  const auto file = texts.find("tokenizer.json");
  if (file == texts.end()) {
    return Error(ErrorCode::kNotFound, "'" + source + "' has no tokenizer.json.");
  }
  return Tokenizer::FromJson(AsBytes(file->second))
      .Context("While reading the tokenizer of '" + source + "'");
}

Status TokenizeLines(const Tokenizer& tokenizer, const TokenizeOptions& options, std::istream& in,
                     std::ostream& out) {
  std::string line;
  for (size_t number = 1; std::getline(in, line); ++number) {
    ASSIGN_OR_RETURN(const json::value value, ParseJson(line, number));
    if (!value.is_string()) {
      return Error(ErrorCode::kInvalidData, "Line " + std::to_string(number) +
                                                " of the input is not a JSON string, such as "
                                                "\"Hello\": it begins with '" +
                                                line.substr(0, 1) + "'.");
    }
    const json::string& text = value.get_string();
    ASSIGN_OR_RETURN(
        const std::vector<int32_t> ids,
        tokenizer.Encode({text.data(), text.size()}, options.add_special, options.parse_special)
            .Context("While reading line " + std::to_string(number) + " of the input"));
    out << json::serialize(json::value_from(ids)) << "\n";
  }
  return OkStatus();
}

Result<std::string> RenderVariables(const api::ModelTemplate& chat, std::istream& in) {
  const std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  ASSIGN_OR_RETURN(json::value variables, ParseJson(text, 1));
  if (!variables.is_object()) {
    return Error(ErrorCode::kInvalidData,
                 "The input is not a JSON object of variables, such as {\"messages\": [...], "
                 "\"add_generation_prompt\": true}.");
  }
  ASSIGN_OR_RETURN(QuotedText rendered, chat.Render(std::move(variables.get_object())));
  return std::move(rendered.text);
}

}  // namespace weft::apps
