// Popularity: how often rows of late were routed to each expert, as hubs tell it, and which experts
// are hot by that, and get one holder more (planner/expert_ring.h).
//
// Counts of a layer fade with its own rows, so that they follow the traffic and stand still with
// it: after kHalfLifeRows rows an old one counts half. An expert becomes hot when it is chosen more
// than twice as often as the layer's mean, and is hot until it is chosen less than 1.25 times as
// often. Example, 8 experts, 2 of them a row, in 10,000 rows: the mean is 2,500; one that 5,400
// rows chose is hot, and stays hot until its share of as many is below 3,125.
//
// Holders load what becomes hot: so they are placed anew every few minutes at most, and only where
// what changes is some of the traffic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "swarm/options.h"
#include "swarm/placement.h"

namespace weft::swarm {

class Popularity {
 public:
  static constexpr double kHalfLifeRows = 8192;
  static constexpr double kLeastRows = 1024;  // of a layer, before any expert of it is hot
  static constexpr double kHotFrom = 2, kHotUntil = 1.25;  // times the mean
  static constexpr double kWorthShare = 0.01;              // of all that was chosen
  static constexpr Duration kInterval = Seconds(300);

  // Keeps a reference to the model. What is known of layers that it does not have is left out.
  Popularity(const ModelInfo& model, const std::vector<PlacedPopularity>& known);

  // Whether routes of this layer mean anything: neuron groups are chosen all alike.
  bool Has(uint32_t layer) const { return layer < counts_.size() && !counts_[layer].empty(); }
  // How often each expert was chosen since the last time; of those behind the last: never.
  // REQUIRES: Has(layer), and no more of them than experts.
  void Note(uint32_t layer, std::span<const uint32_t> times);
  // True: other experts are hot than before.
  bool Review(Instant now);

  bool IsHot(uint32_t layer, uint32_t expert) const { return Has(layer) && hot_[layer][expert]; }
  // Times the layer's mean, as of when somebody became hot last; 1 where nothing is known.
  double Share(uint32_t layer, uint32_t expert) const {
    return Has(layer) ? shares_[layer][expert] : 1;
  }
  // For a later start.
  std::vector<PlacedPopularity> Placed() const;

 private:
  using Flags = std::vector<std::vector<bool>>;

  double SumOf(uint32_t layer) const;
  double ShareNow(uint32_t layer, uint32_t expert) const;
  Flags HotNow() const;
  void Take(Flags hot);

  const ModelInfo& model_;
  std::vector<std::vector<double>> counts_, shares_;  // by layer and expert
  Flags hot_;
  std::optional<Instant> reviewed_at_;
};

}  // namespace weft::swarm
