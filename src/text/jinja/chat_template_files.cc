#include "text/jinja/chat_template_files.h"

#include <boost/json.hpp>

#include "text/jinja/chat_template.h"

namespace weft {
namespace json = boost::json;

namespace {

using Files = std::map<std::string, std::string>;

std::string TextField(const json::object& object, const char* name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

constexpr std::string_view kAdditionalFolder = "additional_chat_templates/";

using Sources = std::map<std::string, std::string>;  // by name

// The chat_template of an object: a string, or a list or object of named ones.
void AddTemplates(const json::object& config, Sources* sources) {
  const json::value* value = config.if_contains("chat_template");
  if (value == nullptr) return;
  if (value->is_string()) sources->emplace("default", value->as_string());
  if (value->is_object()) {
    for (const auto& [name, source] : value->as_object()) {
      if (source.is_string()) sources->emplace(name, source.as_string());
    }
  }
  if (!value->is_array()) return;
  for (const json::value& item : value->as_array()) {
    const json::object* entry = item.if_object();
    if (entry == nullptr) continue;
    const std::string name = TextField(*entry, "name");
    const std::string source = TextField(*entry, "template");
    if (!name.empty() && !source.empty()) sources->emplace(name, source);
  }
}

// chat_template.json holds {"chat_template": ...}, or the template as a string.
Status AddTemplateJson(const Files& files, Sources* sources) {
  const auto file = files.find("chat_template.json");
  if (file == files.end()) return OkStatus();
  boost::system::error_code error;
  const json::value value = json::parse(file->second, error);
  if (error) {
    return Error(ErrorCode::kInvalidData, "'chat_template.json' is not JSON: " + error.message());
  }
  if (value.is_object()) {
    AddTemplates(value.as_object(), sources);
  } else if (value.is_string()) {
    sources->emplace("default", value.as_string());
  }
  return OkStatus();
}

}  // namespace

Result<std::map<std::string, std::string>> ChatTemplateSources(const Files& files) {
  Sources sources;
  if (const auto file = files.find("chat_template.jinja"); file != files.end()) {
    sources["default"] = file->second;
  }
  TRY(AddTemplateJson(files, &sources));
  if (const auto config = files.find("tokenizer_config.json"); config != files.end()) {
    boost::system::error_code error;
    const json::value value = json::parse(config->second, error);
    if (!error && value.is_object()) AddTemplates(value.as_object(), &sources);
  }
  for (const auto& [name, text] : files) {
    if (!name.starts_with(kAdditionalFolder) || !name.ends_with(".jinja")) continue;
    sources[name.substr(kAdditionalFolder.size(), name.size() - kAdditionalFolder.size() - 6)] =
        text;
  }
  std::erase_if(sources, [](const auto& entry) { return entry.second.empty(); });
  return sources;
}

std::vector<std::string> ChatTemplateNotes(const Files& files) {
  const auto sources = ChatTemplateSources(files);
  if (!sources.ok()) return {sources.error().message()};
  std::vector<std::string> notes;
  if (sources->empty()) {
    notes.emplace_back(
        "The model has no chat template, so that requests for chat will be refused: neither "
        "chat_template.jinja nor chat_template.json nor a chat_template in tokenizer_config.json.");
  }
  for (const auto& [name, source] : *sources) {
    const auto chat = ChatTemplate::Parse(source);
    const std::string whose = "Of the chat template '" + name + "': ";
    if (!chat.ok()) {
      notes.push_back(whose + chat.error().message());
      continue;
    }
    for (const std::string& sentence : chat->FindMissing()) notes.push_back(whose + sentence);
  }
  return notes;
}

}  // namespace weft
