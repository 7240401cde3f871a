#include "registry/registry_settings.h"

#include <algorithm>
#include <initializer_list>

#include "base/file.h"

namespace weft::registry {
namespace {

namespace fs = std::filesystem;

std::string Value(const Environment& environment, const char* name) {
  return EnvironmentValue(environment, name);
}

// Without a home there is only what everybody writes to.
fs::path FolderOrTemporary(const Environment& environment, const char* variable,
                           const fs::path& below_home) {
  const fs::path folder = BaseFolder(environment, variable, below_home);
  return folder.empty() ? fs::path("/tmp") / below_home : folder;
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// The path that a variable holds, with "~", "$NAME" and "${NAME}" put in, as huggingface_hub does
// for those that come from files of settings. What is not set stays as it is.
fs::path PathOf(const Environment& environment, const char* variable) {
  std::string text = Value(environment, variable);
  if (text == "~" || text.starts_with("~/")) {
    const std::string home = Value(environment, "HOME");
    if (!home.empty()) text.replace(0, 1, home);
  }
  std::string path;
  for (size_t i = 0; i < text.size();) {
    const bool is_braced = text.compare(i, 2, "${") == 0;
    const size_t begin = i + (is_braced ? 2 : 1);
    size_t end = begin;
    while (end < text.size() && IsNameCharacter(text[end])) ++end;
    const bool is_name =
        text[i] == '$' && end > begin && (!is_braced || (end < text.size() && text[end] == '}'));
    const char* value = is_name ? environment(text.substr(begin, end - begin).c_str()) : nullptr;
    if (value == nullptr) {
      path += text[i++];
      continue;
    }
    path += value;
    i = end + (is_braced ? 1 : 0);
  }
  return path;
}

fs::path HuggingFaceHome(const Environment& environment) {
  fs::path home = PathOf(environment, "HF_HOME");
  if (!home.empty()) return home;
  return FolderOrTemporary(environment, "XDG_CACHE_HOME", ".cache") / "huggingface";
}

// Of several names of one setting the first that is set to something.
std::string FirstValue(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::string value = Value(environment, name); !value.empty()) return value;
  }
  return {};
}

std::string Trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

// What goes into a header must not be able to end it.
bool IsToken(const std::string& text) {
  return text.size() <= 1024 &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > 32 && c < 127; });
}

bool IsYes(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return text == "1" || text == "on" || text == "yes" || text == "true";
}

}  // namespace

Result<RegistrySettings> ReadRegistrySettings(const Environment& environment) {
  RegistrySettings settings;
  settings.endpoint_text = Trimmed(Value(environment, "HF_ENDPOINT"));
  if (settings.endpoint_text.empty()) settings.endpoint_text = "https://huggingface.co";
  while (settings.endpoint_text.ends_with('/')) settings.endpoint_text.pop_back();
  if (settings.endpoint_text.find("://") == std::string::npos) {
    return Error(ErrorCode::kInvalidArgument,
                 "HF_ENDPOINT is '" + settings.endpoint_text +
                     "'; expected an address like https://huggingface.co.");
  }
  ASSIGN_OR_RETURN(settings.endpoint,
                   net::ParseUrl(settings.endpoint_text).Context("While reading HF_ENDPOINT"));
  if (settings.endpoint.path == "/") settings.endpoint.path.clear();

  const fs::path home = HuggingFaceHome(environment);
  settings.cache = PathOf(environment, "HF_HUB_CACHE");
  if (settings.cache.empty()) settings.cache = PathOf(environment, "HUGGINGFACE_HUB_CACHE");
  if (settings.cache.empty()) settings.cache = home / "hub";
  settings.offline = IsYes(FirstValue(environment, {"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"}));

  ASSIGN_OR_RETURN(settings.proxies, Proxies::Read(environment));
  settings.certificates = {Value(environment, "SSL_CERT_FILE"), Value(environment, "SSL_CERT_DIR")};
  if (IsYes(Value(environment, "HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return settings;
  settings.token = Trimmed(FirstValue(environment, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"}));
  if (settings.token.empty()) {
    const fs::path named = PathOf(environment, "HF_TOKEN_PATH");
    const auto text = ReadTextFile(named.empty() ? home / "token" : named, 64 * 1024);
    if (text.ok()) settings.token = Trimmed(*text);
  }
  if (!IsToken(settings.token)) {
    return Error(ErrorCode::kInvalidArgument,
                 "The token in HF_TOKEN or the token file holds spaces or other characters that "
                 "no token has.");
  }
  return settings;
}

fs::path LibraryFolder(const Environment& environment) {
  const std::string weft = Value(environment, "WEFT_HOME");
  if (!weft.empty()) return fs::path(weft) / "packages";
  const fs::path base =
      FolderOrTemporary(environment, "XDG_DATA_HOME", fs::path(".local") / "share");
  return base / "weft" / "packages";
}

}  // namespace weft::registry
