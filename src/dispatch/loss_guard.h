// How much of the layers' sums is lost, and whether that is too much. A lost group counts by how
// large its outputs are usually, so that the loss of critical ones weighs more.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace weft::dispatch {

class LossGuard {
 public:
  // The share is that of the last few hundred layers, and says nothing before there are some.
  static constexpr uint32_t kLeastLayers = 64, kLayers = 256;
  // What was too much is tried again after this.
  static constexpr Duration kReliable = Seconds(60);

  void SetLimit(double limit) { limit_ = limit; }
  // Whether layers may lose anything now.
  bool MayLose(Instant now) const { return now >= reliable_until_; }
  // A layer that could lose something, and this share of its weight was lost.
  void Note(Instant now, double lost) {
    layers_ = std::min(layers_ + 1, kLayers);
    share_ += (lost - share_) / layers_;
    if (layers_ < kLeastLayers || share_ <= limit_) return;
    reliable_until_ = now + kReliable;
    ++falls_;
    fell_at_ = share_;
    share_ = 0;
    layers_ = 0;
  }

  double limit() const { return limit_; }
  double share() const { return share_; }
  // How often it was too much, and the share when it was last.
  uint32_t falls() const { return falls_; }
  double fell_at() const { return fell_at_; }

 private:
  double limit_ = 1;
  double share_ = 0, fell_at_ = 0;
  uint32_t layers_ = 0, falls_ = 0;
  Instant reliable_until_{INT64_MIN};
};

}  // namespace weft::dispatch
