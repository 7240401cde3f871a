#include "apps/web_files.h"

namespace weft::apps {

std::filesystem::path FindWebRoot(const char* file) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  for (const char* relative : {"../share/weft/web", "../../web/dist"}) {
    const auto candidate = program.parent_path() / relative;
    if (std::filesystem::exists(candidate / file)) return candidate.lexically_normal();
  }
  return (program.parent_path() / "../../web/dist").lexically_normal();
}

}  // namespace weft::apps
