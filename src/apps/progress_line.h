// Progress of a long command on stderr: a bar that redraws itself on a terminal, a plain line now
// and then elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "base/clock.h"

namespace weft::apps {

class ProgressLine {
 public:
  // `unit`: what is counted, such as "documents". Without one it counts bytes.
  explicit ProgressLine(std::string verb, std::string unit = "");
  ~ProgressLine() { Finish(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  // Cheap to call often: draws at most ten times a second (a terminal) or every five seconds (a
  // log).
  void Show(uint64_t done, uint64_t total) { Show(done, total, done); }
  // `fresh` of what is done belongs to this run: the rate is that of it.
  void Show(uint64_t done, uint64_t total, uint64_t fresh);
  // Ends the bar's line, if it has not ended: before anything else is printed.
  void Finish();
  // Since the beginning.
  double seconds() const { return (MonotonicNow() - began_).seconds(); }

 private:
  std::string verb_, unit_;
  bool is_terminal_;
  bool drawn_ = false;
  Instant began_;
  Instant last_drawn_;
};

}  // namespace weft::apps
