// QR codes (libqrencode) for terminals and pages.
#pragma once

#include <string>

namespace weft::server {

// Two modules a character cell, quiet zone included, light on dark terminals too. "" when the text
// is too long.
std::string QrForTerminal(const std::string& text);
// A standalone SVG element without scripts or styles.
std::string QrAsSvg(const std::string& text);

}  // namespace weft::server
