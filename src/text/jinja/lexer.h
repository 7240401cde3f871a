// Cuts the source of a chat template into text and the tokens of its tags, with Jinja's white space
// control: "-" at a tag takes all white space on that side; besides, as transformers asks
// (trim_blocks, lstrip_blocks), the newline after a block and the indentation before it go.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace weft::jinja {

struct Token {
  enum class Kind {
    kText,        // outside of tags
    kBlockBegin,  // {%
    kBlockEnd,
    kPrintBegin,  // {{
    kPrintEnd,
    kName,
    kInteger,
    kFloat,
    kString,
    kOperator,  // text is the operator
    kEnd
  };
  Kind kind = Kind::kEnd;
  std::string text;  // of a string: what it stands for
  uint32_t line = 1;
};

// Errors: kInvalidData with the line: an open tag, string or comment, a character or number that is
// none.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace weft::jinja
