#include "apps/settings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/spelling.h"

namespace weft::apps {
namespace {

using Kind = ConfigEntry::Kind;

constexpr char kConfig[] = "config";

// A file that holds a secret, and the variable that may hold the secret itself.
constexpr std::pair<const char*, const char*> kSecrets[] = {{"api-key-file", "WEFT_API_KEY"},
                                                            {"join-token-file", "WEFT_JOIN_TOKEN"}};

// "worker-memory", or of what has no dashes "package"; none for --help. An option that was renamed
// has its former name, too, behind the one of now.
std::vector<std::string> KeysOf(const CLI::Option& option) {
  const auto& names = option.get_lnames();
  if (names.empty()) return {option.get_name(true)};
  return names.front() == "help" ? std::vector<std::string>() : names;
}

bool HasKey(const CLI::Option& option, const std::string& key) {
  const std::vector<std::string> keys = KeysOf(option);
  return std::ranges::find(keys, key) != keys.end();
}

std::vector<std::string> KeysOf(const CLI::App& command) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : command.get_options()) {
    for (std::string& key : KeysOf(*option))
      if (key != kConfig) keys.push_back(std::move(key));
  }
  return keys;
}

CLI::Option* OptionOf(CLI::App& command, const std::string& key) {
  for (CLI::Option* option : command.get_options())
    if (HasKey(*option, key)) return option;
  return nullptr;
}

bool IsFlag(const CLI::Option& option) {
  return option.get_items_expected_max() == 0;
}
bool TakesSeveral(const CLI::Option& option) {
  return option.get_items_expected_max() > 1;
}

std::string WantedOf(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (IsFlag(option)) return "true or false";
  if (TakesSeveral(option)) return "a list of texts in quotes";
  if (type.starts_with("UINT") || type.starts_with("INT")) return "a whole number";
  if (type.starts_with("FLOAT")) return "a number";
  return "a text in quotes";
}

bool HasType(const CLI::Option& option, const ConfigEntry& entry) {
  const std::string type = option.get_type_name();
  if (entry.is_list) return TakesSeveral(option) && entry.kind == Kind::kText;
  if (IsFlag(option)) return entry.kind == Kind::kTruth;
  if (type.starts_with("UINT") || type.starts_with("INT")) return entry.kind == Kind::kInteger;
  if (type.starts_with("FLOAT")) return entry.kind == Kind::kNumber || entry.kind == Kind::kInteger;
  // An amount of bytes and a count among words ("auto", "2") may be written as a number.
  const bool counts = type.find(':') != std::string::npos && entry.kind == Kind::kInteger;
  return entry.kind == Kind::kText || counts;
}

std::string WithoutEnd(std::string text) {
  while (text.ends_with('.') || text.ends_with('\n')) text.pop_back();
  return text;
}

// What the option says of the values; it has them afterwards. "": it takes them.
std::string Give(CLI::Option& option, const std::vector<std::string>& values) {
  try {
    option.clear();
    option.add_result(values);
    option.run_callback();
    return "";
  } catch (const CLI::Error& error) {
    option.clear();
    return WithoutEnd(error.what());
  }
}

// An entry's problem without its place.
std::string ProblemOf(CLI::App& command, const ConfigEntry& entry) {
  CLI::Option* option = entry.key == kConfig ? nullptr : OptionOf(command, entry.key);
  if (option == nullptr) {
    for (const auto& [file_key, variable] : kSecrets) {
      const std::string secret = std::string(file_key).substr(0, std::string(file_key).size() - 5);
      if (entry.key == secret)
        return "secrets do not stand in this file; name a file with '" + std::string(file_key) +
               "', or set " + variable + ".";
    }
    return "there is no setting '" + entry.key + "'." + DidYouMean(entry.key, KeysOf(command));
  }
  if (!HasType(*option, entry)) return "'" + entry.key + "' wants " + WantedOf(*option) + ".";
  const std::string problem = Give(*option, entry.values);
  return problem.empty() ? "" : "'" + entry.key + "' is refused: " + problem + ".";
}

std::string ValueOf(const Environment& environment, const std::string& variable) {
  return EnvironmentValue(environment, variable.c_str());
}

// A secret in the environment counts more than a file of secrets that the file names.
bool IsOverruled(const Environment& environment, const std::string& key) {
  return std::ranges::any_of(kSecrets, [&](const auto& secret) {
    return key == secret.first && !ValueOf(environment, secret.second).empty();
  });
}

std::string Joined(const std::vector<std::string>& sentences) {
  std::string text;
  for (const std::string& sentence : sentences) text += (text.empty() ? "" : "\n") + sentence;
  return text;
}

std::vector<std::string> SplitAtCommas(const std::string& text) {
  std::vector<std::string> parts;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    if (end > begin) parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// "": done, or there is nothing in the environment.
std::string GiveFromEnvironment(CLI::Option& option, const std::string& key,
                                const Environment& environment) {
  const std::string variable = VariableOf(key);
  const std::string value = ValueOf(environment, variable);
  if (value.empty()) return "";
  if (IsFlag(option) && value != "true" && value != "false" && value != "1" && value != "0")
    return variable + " wants true or false.";
  const std::string given =
      IsFlag(option) && value.size() == 1 ? (value == "1" ? "true" : "false") : value;
  const std::string problem =
      Give(option, TakesSeveral(option) ? SplitAtCommas(value) : std::vector{given});
  return problem.empty() ? "" : variable + " is refused: " + problem + ".";
}

Result<std::vector<ConfigEntry>> ReadFile(CLI::App& command, const Environment& environment,
                                          std::string& path) {
  CLI::Option* named = OptionOf(command, kConfig);
  path = named != nullptr && named->count() > 0 ? named->as<std::string>()
                                                : ValueOf(environment, VariableOf(kConfig));
  if (path.empty()) return std::vector<ConfigEntry>();
  return ReadConfigFile(path);
}

}  // namespace

std::string VariableOf(const std::string& key) {
  std::string name = "WEFT_" + key;
  for (char& c : name) {
    if (c == '-') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return name;
}

std::vector<std::string> FindConfigProblems(CLI::App& command, const std::string& path,
                                            const std::vector<ConfigEntry>& entries) {
  std::vector<std::string> problems;
  for (const ConfigEntry& entry : entries) {
    const std::string problem = ProblemOf(command, entry);
    if (!problem.empty())
      problems.push_back(path + ":" + std::to_string(entry.line) + ": " + problem);
  }
  return problems;
}

Status ApplySettings(CLI::App& command, const Environment& environment) {
  std::string path;
  ASSIGN_OR_RETURN(const auto read, ReadFile(command, environment, path));
  // What the command line gave is not touched; the file's entries for it are still checked.
  std::vector<std::pair<CLI::Option*, std::vector<std::string>>> kept;
  for (CLI::Option* option : command.get_options())
    if (option->count() > 0) kept.emplace_back(option, option->results());
  std::vector<ConfigEntry> entries = read;
  std::erase_if(entries,
                [&](const ConfigEntry& entry) { return IsOverruled(environment, entry.key); });
  std::vector<std::string> problems = FindConfigProblems(command, path, entries);
  for (CLI::Option* option : command.get_options()) {
    const bool is_kept =
        std::ranges::any_of(kept, [option](const auto& each) { return each.first == option; });
    if (is_kept || HasKey(*option, kConfig)) continue;
    const std::vector<std::string> keys = KeysOf(*option);
    for (auto key = keys.rbegin(); key != keys.rend(); ++key) {  // the name of now counts most
      std::string problem = GiveFromEnvironment(*option, *key, environment);
      if (!problem.empty()) problems.push_back(std::move(problem));
    }
  }
  for (const auto& [option, values] : kept)
    if (!HasKey(*option, kConfig)) static_cast<void>(Give(*option, values));
  if (problems.empty()) return OkStatus();
  return Error(ErrorCode::kInvalidArgument, Joined(problems));
}

std::vector<std::string> FindMistypedVariables(const CLI::App& command,
                                               const std::vector<std::string>& names) {
  std::vector<std::string> known = {"WEFT_CONFIG"};
  for (const std::string& key : KeysOf(command)) known.push_back(VariableOf(key));
  for (const auto& [file_key, variable] : kSecrets) known.emplace_back(variable);
  std::vector<std::string> sentences;
  for (const std::string& name : names) {
    if (!name.starts_with("WEFT_") || std::ranges::find(known, name) != known.end()) continue;
    // The beginning is alike in all of them; what follows has to be near.
    std::vector<std::string> ends;
    for (const std::string& each : known) ends.push_back(each.substr(5));
    const std::string nearest = NearestName(name.substr(5), ends);
    if (!nearest.empty())
      sentences.push_back(name + " is no setting. Did you mean WEFT_" + nearest + "?");
  }
  return sentences;
}

}  // namespace weft::apps
