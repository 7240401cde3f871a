// The text of an answer as its tokens come: detokenised and cut at a stop string. It never ends in
// half a character or in a part of what may become a stop string.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "text/stop_matcher.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

class AnswerText {
 public:
  // `kept_ids`: special tokens whose text counts, such as those that begin calls.
  AnswerText(const Tokenizer& tokenizer, std::vector<std::string> stops,
             std::span<const int32_t> kept_ids = {})
      : detokenizer_(tokenizer, /*skip_special=*/true, /*continues=*/true),
        stops_(std::move(stops)) {
    detokenizer_.KeepSpecial(kept_ids);
  }

  // Text that may be shown now. After a stop string stopped() is true and nothing more comes.
  std::string Push(int32_t token_id) {
    if (stopped()) return {};
    begins_.push_back(produced_);
    return Take(detokenizer_.Push(token_id));
  }
  // What was held back at the end.
  std::string Flush() {
    if (stopped()) return {};
    std::string text = Take(detokenizer_.Flush());
    if (stopped()) return text;
    std::string rest = stops_.Flush();
    shown_ += rest.size();
    has_ended_ = true;
    return text + rest;
  }
  bool stopped() const { return stops_.stopped(); }
  // The stop string that ended it; "": none has.
  const std::string& stop_string() const { return stops_.matched(); }

  // How many tokens more have come into the text: those of which some of it was shown, in order. A
  // token without text comes with the next that has some, or with the end. Those of a stop string
  // never do.
  size_t TakeShownTokens() {
    size_t count = 0;
    for (; !begins_.empty() && (has_ended_ || begins_.front() < shown_); ++count)
      begins_.pop_front();
    return count;
  }

 private:
  std::string Take(const std::string& text) {
    produced_ += text.size();
    std::string ready = stops_.Push(text);
    shown_ += ready.size();
    return ready;
  }

  Detokenizer detokenizer_;
  StopMatcher stops_;
  // Of the tokens that TakeShownTokens has not told of: where their text begins.
  std::deque<uint64_t> begins_;
  uint64_t produced_ = 0, shown_ = 0;  // bytes
  bool has_ended_ = false;
};

}  // namespace weft::api
