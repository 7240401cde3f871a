// A layer waits for experts of several holders: this says how long it will take, and what a further
// copy would change. A layer ends with its last expert, and an expert with the first of its copies.
// The share of layers that take longer than t from now is A layer ends with its last expert, an
// expert with the first of its copies; the share of layers that take longer than t from now is
//
//   L(t) = 1 - product over experts of (1 - product over its copies c of S_c(w_c + t) / S_c(w_c))
//
// and what is made small is the eighth root of its eighth moment,
//
//   (integral of 8 t^7 L(t) dt)^(1/8)
//
// One layer of a hundred that waits for a stall weighs more there than all the others together. The
// mean would accept it for the line that copies take.
//
// S_c(x) is the share of the last round trips of c's holder that took longer than x, and w_c how
// long c has been waited for. An example has seven experts that take 8 ms and one that takes 40. A
// copy of the eighth to a holder of 8 ms makes the layer 32 ms shorter. A copy of one of the seven
// makes it no shorter at all, however late that one is.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "base/clock.h"
#include "dispatch/latency_window.h"

namespace weft::dispatch {

class LayerForecast {
 public:
  struct Copy {
    const LatencyWindow* round_trips = nullptr;  // borrowed; may be empty: nothing is known
    Duration waited;                             // since it was asked
    Duration behind;  // what its holder computes first, or a line carries
  };

  // Its number counts from 0. An expert without copies never ends.
  size_t AddExpert(std::span<const Copy> copies);
  void AddCopy(size_t expert, const Copy& copy);

  // The eighth root of the eighth moment, in microseconds from now; the second as if `copy` had
  // been asked for `expert`, too.
  double WeightedUs() const;
  double WeightedUsWith(size_t expert, const Copy& copy) const;

 private:
  // From 0.25 ms to about 1.5 s, each point a quarter further than the one before.
  static constexpr size_t kPoints = 40;
  using Curve = std::array<double, kPoints>;

  static const Curve& Times();
  static Curve SurvivalOf(const Copy& copy);
  // The integral for one expert that survives like this beside the others that end like that.
  static double Integral(const Curve& survival, const Curve& others_end);
  Curve OthersEnd(size_t expert) const;

  std::vector<Curve> survivals_;  // of experts
};

}  // namespace weft::dispatch
