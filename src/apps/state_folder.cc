#include "apps/state_folder.h"

#include <cstdlib>

#include "base/environment.h"
#include "store/store.h"

namespace weft::apps {

std::filesystem::path StateFolder() {
  const auto below_home = std::filesystem::path(".local") / "state";
  const std::filesystem::path base = BaseFolder(std::getenv, "XDG_STATE_HOME", below_home);
  return base.empty() ? base : base / "weft";
}

std::filesystem::path KeysFile(const std::filesystem::path& named) {
  if (named == "off") return {};
  if (!named.empty()) return named;
  const std::filesystem::path folder = StateFolder();
  return folder.empty() ? folder : folder / store::kFileName;
}

std::filesystem::path JournalFile(uint16_t port) {
  const std::filesystem::path folder = StateFolder();
  if (folder.empty() || port == 0) return {};
  return folder / ("serve-" + std::to_string(port) + ".db");
}

}  // namespace weft::apps
