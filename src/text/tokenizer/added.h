// Added tokens: texts that are cut out of the input before the model sees it, such as <|im_start|>.
// At each place the longest one wins, leftmost first.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "text/quoted_text.h"

namespace weft {

// Tokens that end an assistant's turn, or the text, whatever a file says of them. `</s>` is none of
// them: it is a word of HTML where it is no control token.
bool EndsTurnByName(std::string_view token);

struct AddedToken {
  int32_t id = -1;
  std::string content;
  bool special = false;  // skipped when decoding
  // Steers a model, so that it is not looked for in quoted text: a special token, and one that by
  // its name ends a turn.
  bool is_control() const;
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
  // Cuts `text` (well-formed UTF-8) into text and tokens. Control tokens stay text unless
  // `parse_special`, and where they touch a range of `quoted`.
  std::vector<Section> Split(std::string_view text, bool parse_special,
                             std::span<const TextRange> quoted = {}) const;

 private:
  struct Hit {
    const AddedToken* token;
    size_t end;
  };
  // `control_limit`: where a control token must end.
  Hit Longest(std::string_view text, size_t at, size_t control_limit) const;

  struct Node {
    std::unordered_map<char, uint32_t> children;
    const AddedToken* token = nullptr;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::array<bool, 256> starts_{};
};

}  // namespace weft
