// Whether the server's own files of some layers are what their package promises: looked at when a
// device says that it was sent others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "package/package.h"

namespace weft::server {

// What is wrong with layers [first, end), in a sentence that names the blob; nullopt: nothing.
// Reads all of their files, whatever was known of them before.
std::optional<std::string> FindDamage(const package::Package& package, uint32_t first,
                                      uint32_t end);

}  // namespace weft::server
