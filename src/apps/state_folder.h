// Where weft keeps what lasts: certificates, journals, keys.
#pragma once

#include <filesystem>

namespace weft::apps {

// weft in XDG_STATE_HOME or ~/.local/state; "" where no folder is ours: a key does not belong into
// one that everybody writes to.
std::filesystem::path StateFolder();

// `named`, else weft.db in the state folder; "" where there is none, or `named` is "off".
std::filesystem::path KeysFile(const std::filesystem::path& named);

}  // namespace weft::apps
