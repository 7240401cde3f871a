// Where the built page is, and with it the headless worker.
#pragma once

#include <filesystem>

namespace weft::apps {

// share/weft/web beside the installed program's bin, or web/dist of the source tree in which it was
// built: the first in which `file` is, or the latter.
std::filesystem::path FindWebRoot(const char* file = "index.html");

}  // namespace weft::apps
