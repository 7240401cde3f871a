#include "hub/hub_settings.h"

#include <algorithm>

#include "base/file.h"

namespace weft::hub {
namespace {

namespace fs = std::filesystem;

// The variable's value; "" when it is not set.
std::string Value(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr ? value : "";
}

fs::path Home(const Environment& environment) {
  const std::string home = Value(environment, "HOME");
  return home.empty() ? fs::path("/tmp") : fs::path(home);
}

fs::path HuggingFaceHome(const Environment& environment) {
  const std::string home = Value(environment, "HF_HOME");
  if (!home.empty()) return home;
  const std::string cache = Value(environment, "XDG_CACHE_HOME");
  return (cache.empty() ? Home(environment) / ".cache" : fs::path(cache)) / "huggingface";
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

Result<HubSettings> ReadHubSettings(const Environment& environment) {
  HubSettings settings;
  settings.endpoint_text = Value(environment, "HF_ENDPOINT");
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
  const std::string cache = Value(environment, "HF_HUB_CACHE");
  settings.cache = cache.empty() ? home / "hub" : fs::path(cache);
  settings.offline = IsYes(Value(environment, "HF_HUB_OFFLINE"));

  ASSIGN_OR_RETURN(settings.proxies, Proxies::Read(environment));
  settings.token = Trimmed(Value(environment, "HF_TOKEN"));
  if (settings.token.empty()) {
    const std::string named = Value(environment, "HF_TOKEN_PATH");
    const auto text = ReadTextFile(named.empty() ? home / "token" : fs::path(named), 64 * 1024);
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
  const std::string data = Value(environment, "XDG_DATA_HOME");
  const fs::path base = data.empty() ? Home(environment) / ".local" / "share" : fs::path(data);
  return base / "weft" / "packages";
}

}  // namespace weft::hub
