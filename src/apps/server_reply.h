// What a server says where it refuses, for people.
#pragma once

#include <string>

namespace weft::apps {

// The sentence in an error body, or the beginning of the body; nothing that steers a terminal.
std::string ErrorText(const std::string& body);

}  // namespace weft::apps
