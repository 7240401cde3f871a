#include "dispatch/layer_forecast.h"

#include <algorithm>
#include <cmath>

namespace weft::dispatch {
namespace {

// Of the round trips that take longer than `waited`, the share that take longer than `us`. A holder
// that is silent for longer than ever before is likely to stay so for as long again.
double Survival(const LatencyWindow& round_trips, double waited, double us) {
  if (round_trips.empty()) return std::exp((waited - us) / kUnknownRoundTripUs);
  const auto longer = [&round_trips](double than_us) {
    return round_trips.CountAbove(Microseconds(static_cast<int64_t>(than_us)));
  };
  const size_t left = longer(waited);
  if (left == 0) return waited / us;
  return static_cast<double>(longer(us)) / static_cast<double>(left);
}

double Eighth(double x) {
  const double fourth = x * x * x * x;
  return fourth * fourth;
}

}  // namespace

const LayerForecast::Curve& LayerForecast::Times() {
  static const Curve times = [] {
    Curve curve;
    double us = 250;
    for (double& time : curve) {
      time = us;
      us *= 1.25;
    }
    return curve;
  }();
  return times;
}

LayerForecast::Curve LayerForecast::SurvivalOf(const Copy& copy) {
  const auto behind = static_cast<double>(copy.behind.us);
  const double waited = std::max(static_cast<double>(copy.waited.us) - behind, 0.0);
  const double ahead = std::max(behind - static_cast<double>(copy.waited.us), 0.0);
  Curve survival;
  for (size_t i = 0; i < kPoints; ++i) {
    const double us = Times()[i] - ahead;
    survival[i] = us > 0 ? Survival(*copy.round_trips, waited, waited + us) : 1;
  }
  return survival;
}

size_t LayerForecast::AddExpert(std::span<const Copy> copies) {
  Curve survival;
  survival.fill(1);
  survivals_.push_back(survival);
  for (const Copy& copy : copies) AddCopy(survivals_.size() - 1, copy);
  return survivals_.size() - 1;
}

void LayerForecast::AddCopy(size_t expert, const Copy& copy) {
  const Curve more = SurvivalOf(copy);
  for (size_t i = 0; i < kPoints; ++i) survivals_[expert][i] *= more[i];
}

double LayerForecast::Integral(const Curve& survival, const Curve& others_end) {
  double sum = 0, before = 0;
  for (size_t i = 0; i < kPoints; ++i) {
    sum += (Eighth(Times()[i]) - Eighth(before)) * (1 - (1 - survival[i]) * others_end[i]);
    before = Times()[i];
  }
  return std::pow(sum, 1.0 / 8);
}

LayerForecast::Curve LayerForecast::OthersEnd(size_t expert) const {
  Curve end;
  end.fill(1);
  for (size_t other = 0; other < survivals_.size(); ++other) {
    if (other == expert) continue;
    for (size_t i = 0; i < kPoints; ++i) end[i] *= 1 - survivals_[other][i];
  }
  return end;
}

double LayerForecast::WeightedUs() const {
  return survivals_.empty() ? 0 : Integral(survivals_[0], OthersEnd(0));
}

double LayerForecast::WeightedUsWith(size_t expert, const Copy& copy) const {
  Curve survival = SurvivalOf(copy);
  for (size_t i = 0; i < kPoints; ++i) survival[i] *= survivals_[expert][i];
  return Integral(survival, OthersEnd(expert));
}

}  // namespace weft::dispatch
