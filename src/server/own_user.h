// Whether this machine tells whose process is at the other end of a connection.
#pragma once

#include <cstdint>
#include <optional>

namespace weft::server {

// The user that this process runs as, after it was found by a connection of the process to itself;
// nullopt where that does not tell (other systems than Linux, some containers).
std::optional<uint32_t> OwnUserIfKnown();

}  // namespace weft::server
