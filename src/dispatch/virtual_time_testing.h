// Things that happen at times of a virtual clock, in order: what tests and benchmarks of the
// dispatcher run on.
#pragma once

#include <functional>
#include <map>
#include <utility>

#include "base/clock.h"

namespace weft::dispatch {

class VirtualTime {
 public:
  Instant now() const { return now_; }
  // REQUIRES: not before now. What is set for one time happens in the order in which it was set.
  void At(Instant when, std::function<void()> what) { queue_.emplace(when, std::move(what)); }
  void After(Duration wait, std::function<void()> what) { At(now_ + wait, std::move(what)); }
  // False when nothing is left.
  bool RunNext() {
    if (queue_.empty()) return false;
    auto first = queue_.extract(queue_.begin());
    now_ = first.key();
    first.mapped()();
    return true;
  }

 private:
  Instant now_;
  std::multimap<Instant, std::function<void()>> queue_;
};

}  // namespace weft::dispatch
