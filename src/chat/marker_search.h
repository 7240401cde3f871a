// Finds the first of some markers in text that comes in pieces.
#pragma once

#include <bitset>
#include <string>
#include <string_view>
#include <vector>

namespace weft::chat {

class MarkerSearch {
 public:
  // REQUIRES: no marker is empty; `markers` outlive this.
  explicit MarkerSearch(std::vector<std::string> markers) : markers_(std::move(markers)) {
    for (const std::string& marker : markers_) starts_.set(static_cast<unsigned char>(marker[0]));
  }

  struct Hit {
    size_t at = 0;  // where the marker begins, or may begin; else the text's end
    const std::string* marker = nullptr;  // nullptr: none is whole
  };
  // From `at` on. Behind `Hit::at` without a marker nothing is decided yet.
  Hit Find(std::string_view text, size_t at) const {
    for (; at < text.size(); ++at) {
      if (!starts_.test(static_cast<unsigned char>(text[at]))) continue;
      const std::string_view rest = text.substr(at);
      for (const std::string& marker : markers_) {
        if (rest.starts_with(marker)) return {at, &marker};
        if (rest.size() < marker.size() && marker.starts_with(rest)) return {at, nullptr};
      }
    }
    return {at, nullptr};
  }

 private:
  const std::vector<std::string> markers_;
  std::bitset<256> starts_;
};

}  // namespace weft::chat
