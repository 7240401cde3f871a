// Where weft keeps what lasts: certificates, journals, keys.
#pragma once

#include <cstdint>
#include <filesystem>

namespace weft::apps {

// weft in XDG_STATE_HOME or ~/.local/state; "" where no folder is ours: a key does not belong into
// one that everybody writes to.
std::filesystem::path StateFolder();

// `named`, else weft.db in the state folder; "" where there is none, or `named` is "off".
std::filesystem::path KeysFile(const std::filesystem::path& named);

// What the server of this port keeps for its next start: serve-PORT.db in the state folder; ""
// where there is none. A server on a port that is any free one (0) has none: nobody finds it again.
std::filesystem::path JournalFile(uint16_t port);

}  // namespace weft::apps
