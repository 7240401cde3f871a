// Progress of a long command on stderr: a bar that redraws itself on a terminal, a plain line now
// and then elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace weft::apps {

class ProgressLine {
 public:
  explicit ProgressLine(std::string verb);
  // Cheap to call often: draws at most ten times a second (a terminal) or every five seconds (a
  // log).
  void Show(uint64_t done_bytes, uint64_t total_bytes) {
    Show(done_bytes, total_bytes, done_bytes);
  }
  // `fresh_bytes` of what is done belong to this run: the rate is theirs.
  void Show(uint64_t done_bytes, uint64_t total_bytes, uint64_t fresh_bytes);
  // Ends the bar's line.
  void Finish();
  // Since the beginning.
  double seconds() const { return (MonotonicNow() - began_).seconds(); }

 private:
  std::string verb_;
  bool is_terminal_;
  bool drawn_ = false;
  Instant began_;
  Instant last_drawn_;
};

}  // namespace weft::apps
