// Who listens on a port of this machine, for a server that finds it taken.
#pragma once

#include <cstdint>
#include <string>

namespace weft::apps {

// "process 4711 (nginx)"; "" where that cannot be told: another user's process, another system.
std::string DescribePortOwner(uint16_t port);

}  // namespace weft::apps
