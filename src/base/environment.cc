#include "base/environment.h"

namespace weft {
namespace fs = std::filesystem;

std::string EnvironmentValue(const Environment& environment, const char* name) {
  const char* value = environment(name);
  return value != nullptr ? value : "";
}

fs::path BaseFolder(const Environment& environment, const char* variable,
                    const fs::path& below_home) {
  fs::path named = EnvironmentValue(environment, variable);
  if (named.is_absolute()) return named;
  const std::string home = EnvironmentValue(environment, "HOME");
  return home.empty() ? fs::path() : fs::path(home) / below_home;
}

bool WantsPlainText(const Environment& environment) {
  return !EnvironmentValue(environment, "NO_COLOR").empty() ||
         EnvironmentValue(environment, "TERM") == "dumb";
}

}  // namespace weft
