// Finds where a block of calls ends while its text comes: at a marker outside of strings, or where
// the brackets of its JSON are closed. Each byte is looked at once.
#pragma once

#include <string>
#include <string_view>

#include "chat/format.h"

namespace weft::chat {

class BlockScanner {
 public:
  enum class State { kOpen, kEnded, kBroken };  // broken: it cannot become a call any more

  // `syntax` outlives this.
  explicit BlockScanner(const CallSyntax& syntax);

  // REQUIRES: the state is kOpen.
  State Push(char c);
  // Without the marker that ended it.
  const std::string& inside() const { return inside_; }
  // As it came.
  std::string Whole() const;
  size_t end_bytes() const { return has_ended_ ? syntax_.end.size() : 0; }

 private:
  enum class Strings { kNone, kJson, kPython, kGemma };
  bool Begins(char c);
  bool TakesQuote(char c);
  State PushToMarker(char c);
  State PushToBracket(char c);

  const CallSyntax& syntax_;
  std::string inside_;
  Strings strings_ = Strings::kNone;
  bool has_begun_ = false;   // something but white space has come
  bool reads_name_ = false;  // in front of the first bracket or tag
  size_t name_bytes_ = 0;
  char quote_ = 0;  // of the string that is open
  bool is_escaped_ = false;
  int depth_ = 0;
  bool has_ended_ = false;
};

}  // namespace weft::chat
