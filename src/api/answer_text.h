// The text of an answer as its tokens come: detokenised, cut at a stop string, never half a
// character and never a part of what may become a stop string.
#pragma once

#include <string>
#include <vector>

#include "text/stop_matcher.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

class AnswerText {
 public:
  AnswerText(const Tokenizer& tokenizer, std::vector<std::string> stops)
      : detokenizer_(tokenizer, /*skip_special=*/true, /*continues=*/true),
        stops_(std::move(stops)) {}

  // Text that may be shown now. After a stop string stopped() is true and nothing more comes.
  std::string Push(int32_t token_id) {
    return stopped() ? std::string() : stops_.Push(detokenizer_.Push(token_id));
  }
  // What was held back at the end.
  std::string Flush() {
    if (stopped()) return {};
    std::string text = stops_.Push(detokenizer_.Flush());
    return stopped() ? text : text + stops_.Flush();
  }
  bool stopped() const { return stops_.stopped(); }

 private:
  Detokenizer detokenizer_;
  StopMatcher stops_;
};

}  // namespace weft::api
