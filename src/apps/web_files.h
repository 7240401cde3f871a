// Where the built page is, and with it the headless worker.
#pragma once

#include <filesystem>

namespace weft::apps {

// web/dist of the source tree this program was built in, or share/weft/web of an installation:
// the one in which `file` is, or the first.
std::filesystem::path FindWebRoot(const char* file = "index.html");

}  // namespace weft::apps
