// Finds stop strings in text that comes in pieces. Text that may be the start of a stop string is
// held back until it is clear that it is none. A stop string itself is never given out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace weft {

class StopMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // Text that is ready. Once a stop string is complete, stopped() is true and nothing comes any
  // more. Whole characters go in and come out. Linear in the text.
  std::string Push(std::string_view text);
  // What was held back: the text has ended without a stop string.
  std::string Flush();

  bool stopped() const { return stopped_; }
  // The stop string that was found; empty before.
  const std::string& matched() const { return matched_; }

 private:
  // How much of one stop string the text ends with, by Knuth, Morris and Pratt.
  struct Progress {
    std::string stop;
    std::vector<size_t> fallback;  // [i]: longest proper prefix of stop[0, i] that is also its end
    size_t matched_bytes = 0;
    bool Advance(char c);  // true when the stop string is complete
  };
  std::vector<Progress> progress_;
  std::string held_;
  std::string matched_;
  bool stopped_ = false;
};

}  // namespace weft
