// How long a thread of a pool spins for the next region of work before it sleeps.
//
// Waking a sleeping thread takes the kernel 50 us and more, a whole region of a small model's
// decode step; spinning costs a core. Gaps between regions are of three kinds, measured with
// `weft serve`, weft-tiny and two threads on a quiet machine (1,840 tokens, 183,190 gaps):
//
//   99.0%  under 20 us    inside a step: a norm, the next operation's arguments
//    0.9%  20 to 100 us   from one token's step to the next, through the core and back
//    0.1%  longer         a large vocabulary to choose from, a network in between, a busy machine,
//                         or nobody asks anything
//
// The first are always worth the wait, the third never. A thread then wakes later by the time of a
// wake-up, but a spin that ends without work was for nothing. If others want the machine's cores, a
// spin takes one from the thread that makes the next step's input. (Spins of up to 400 us made two
// threads on two busy cores three times slower, and nothing faster on a quiet machine.) The second
// are as long as the way to the orchestrator. The pool cannot know that time, so it looks at the
// gaps so far. While most gaps between steps fit into kLongest, threads spin for twice their usual
// length. A thread without work spins for kLongest at most, once, and sleeps until work comes.
#pragma once

#include <algorithm>

#include "base/clock.h"

namespace weft::kernels {

class SpinBudget {
 public:
  static constexpr Duration kShortest = Microseconds(20);  // covers the gaps inside a step
  static constexpr Duration kLongest = Microseconds(100);

  // A gap between two regions has ended.
  void Observe(Duration gap) {
    if (gap <= kShortest) return;
    const bool fits = gap <= kLongest;
    // An average over about four gaps: four that fit begin long spins, two in a row that do not
    // end them.
    fitting_share_ += ((fits ? 1.0 : 0.0) - fitting_share_) / 4;
    if (fits) usual_us_ += (static_cast<double>(gap.us) - usual_us_) / 4;
  }

  // From now until the next Observe.
  Duration spin() const {
    if (fitting_share_ < kMostly) return kShortest;
    return std::clamp(Microseconds(static_cast<int64_t>(2 * usual_us_)), kShortest, kLongest);
  }

 private:
  static constexpr double kMostly = 0.6;

  double fitting_share_ = 0;  // of the gaps beyond kShortest, those within kLongest
  double usual_us_ = static_cast<double>(kShortest.us);  // of those that fit
};

}  // namespace weft::kernels
