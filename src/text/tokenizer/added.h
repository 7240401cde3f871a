// Added tokens: texts that are cut out of the input before the model sees it, such as <|im_start|>.
// At each place the longest one wins, leftmost first.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"

namespace weft {

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;      // control token: skipped when decoding, not parsed when asked not to
  bool normalized = false;   // looked for in the normalised text instead of the raw text
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;  // takes the white space after it
  bool single_word = false;  // only where no word character touches it
};

// A set of texts to be found. Build with Add, then search from any thread.
class AddedTokenMatcher {
 public:
  // REQUIRES: `content` is not empty; `token` outlives the matcher.
  void Add(std::string_view content, const AddedToken* token);

  struct Section {
    std::string_view text;              // empty for a token
    const AddedToken* token = nullptr;  // nullptr for text
  };
  // Cuts `text` (well-formed UTF-8) into text and tokens. Special tokens stay text unless
  // `parse_special`.
  std::vector<Section> Split(std::string_view text, bool parse_special) const;

 private:
  struct Hit {
    const AddedToken* token;
    size_t end;
  };
  Hit Longest(std::string_view text, size_t at) const;

  struct Node {
    std::unordered_map<char, uint32_t> children;
    const AddedToken* token = nullptr;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_{};
};

}  // namespace weft
