#include "apps/config_file.h"

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

namespace weft::apps {
namespace {

using Kind = ConfigEntry::Kind;

// A settings file has a hundred lines; whatever is longer is another file.
constexpr size_t kLongestFile = 1 << 20;

std::string NumberText(double value) {
  char text[32];
  const auto end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  return {std::begin(text), end};
}

// What a flag would be given; kOther for dates and for lists in lists.
Kind Take(const toml::node& node, std::vector<std::string>& values) {
  if (const auto* text = node.as_string()) {
    values.push_back(text->get());
    return Kind::kText;
  }
  if (const auto* integer = node.as_integer()) {
    values.push_back(std::to_string(integer->get()));
    return Kind::kInteger;
  }
  if (const auto* number = node.as_floating_point()) {
    values.push_back(NumberText(number->get()));
    return Kind::kNumber;
  }
  if (const auto* truth = node.as_boolean()) {
    values.emplace_back(truth->get() ? "true" : "false");
    return Kind::kTruth;
  }
  return Kind::kOther;
}

ConfigEntry EntryOf(std::string key, size_t line, const toml::node& node) {
  ConfigEntry entry;
  entry.key = std::move(key);
  entry.line = line;
  const toml::array* list = node.as_array();
  if (list == nullptr) {
    entry.kind = Take(node, entry.values);
    return entry;
  }
  entry.is_list = true;
  entry.kind = Kind::kText;
  for (const toml::node& member : *list) {
    const Kind kind = Take(member, entry.values);
    if (kind != Kind::kText) entry.kind = kind;
  }
  return entry;
}

void Collect(const toml::table& table, const std::string& prefix,
             std::vector<ConfigEntry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + std::string(key.str());
    if (const toml::table* inner = node.as_table())
      Collect(*inner, name + ".", entries);
    else
      entries.push_back(EntryOf(name, key.source().begin.line, node));
  }
}

}  // namespace

Result<std::vector<ConfigEntry>> ParseConfig(const std::string& text, const std::string& path) {
  const toml::parse_result parsed = toml::parse(std::string_view(text));
  if (!parsed) {
    return Error(ErrorCode::kInvalidData,
                 path + ":" + std::to_string(parsed.error().source().begin.line) +
                     ": this is no TOML: " + std::string(parsed.error().description()) + ".");
  }
  std::vector<ConfigEntry> entries;
  Collect(parsed.table(), "", entries);
  std::ranges::stable_sort(entries, {}, &ConfigEntry::line);
  return entries;
}

Result<std::vector<ConfigEntry>> ReadConfigFile(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    return Error(ErrorCode::kInvalidArgument,
                 "'" + path.string() + "' is a folder; --config wants a file of TOML.");
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char block[4096];
  while (file && text.size() <= kLongestFile) {
    file.read(block, sizeof(block));
    text.append(block, static_cast<size_t>(file.gcount()));
  }
  if (!file.is_open() || file.bad())
    return Error(
        errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
        "The configuration '" + path.string() + "' cannot be read: " + std::strerror(errno) + ".");
  if (text.size() > kLongestFile)
    return Error(ErrorCode::kLimitExceeded,
                 "The configuration '" + path.string() + "' has more than 1 MiB, the limit.");
  return ParseConfig(text, path.string());
}

}  // namespace weft::apps
