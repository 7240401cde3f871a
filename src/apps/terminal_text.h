// What others wrote, made safe for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace weft::apps {

// `text` without control characters other than line feed and tab, and without the marks that turn
// the direction of writing around: with them a model, or a server, could move the cursor, rename
// the window, answer for the user or hide what it says. Bytes that are no UTF-8 become U+FFFD.
std::string TerminalText(std::string_view text);

}  // namespace weft::apps
