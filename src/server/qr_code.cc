#include "server/qr_code.h"

#include <qrencode.h>

#include <memory>

namespace weft::server {
namespace {

constexpr int kQuietModules = 2;

struct FreeQr {
  void operator()(QRcode* code) const { QRcode_free(code); }
};
using OwnedQr = std::unique_ptr<QRcode, FreeQr>;

OwnedQr Encode(const std::string& text) {
  return OwnedQr(QRcode_encodeString8bit(text.c_str(), 0, QR_ECLEVEL_L));
}

bool IsDark(const QRcode& code, int x, int y) {
  if (x < 0 || y < 0 || x >= code.width || y >= code.width) return false;
  return (code.data[y * code.width + x] & 1) != 0;
}

}  // namespace

std::string QrForTerminal(const std::string& text) {
  const OwnedQr code = Encode(text);
  if (!code) return {};
  std::string out;
  for (int y = -kQuietModules; y < code->width + kQuietModules; y += 2) {
    out += "\x1b[47m\x1b[30m";  // black on white whatever the theme
    for (int x = -kQuietModules; x < code->width + kQuietModules; ++x) {
      const bool upper = IsDark(*code, x, y);
      const bool lower = IsDark(*code, x, y + 1);
      out += upper && lower ? "█" : upper ? "▀" : lower ? "▄" : " ";
    }
    out += "\x1b[0m\n";
  }
  return out;
}

std::string QrAsSvg(const std::string& text) {
  const OwnedQr code = Encode(text);
  if (!code) return {};
  const std::string side = std::to_string(code->width + 2 * kQuietModules);
  std::string path;
  for (int y = 0; y < code->width; ++y) {
    for (int x = 0; x < code->width; ++x) {
      if (!IsDark(*code, x, y)) continue;
      path += "M" + std::to_string(x + kQuietModules) + " " + std::to_string(y + kQuietModules) +
              "h1v1h-1z";
    }
  }
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + side + " " + side +
         "\" shape-rendering=\"crispEdges\"><path fill=\"#fff\" d=\"M0 0h" + side + "v" + side +
         "h-" + side + "z\"/><path fill=\"#000\" d=\"" + path + "\"/></svg>";
}

}  // namespace weft::server
