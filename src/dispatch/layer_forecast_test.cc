// What a copy is worth, against layers whose end can be told by hand.
#include "dispatch/layer_forecast.h"

#include <gtest/gtest.h>

namespace weft::dispatch {
namespace {

// Round trips of 8 ms but for every tenth of 300.
LatencyWindow Stalling() {
  LatencyWindow window;
  for (int i = 0; i < 60; ++i) window.Add(Milliseconds(i % 10 == 9 ? 300 : 8));
  return window;
}
LatencyWindow Steady(int64_t ms) {
  LatencyWindow window;
  for (int i = 0; i < 60; ++i) window.Add(Milliseconds(ms));
  return window;
}

TEST(LayerForecast, ACopyHelpsTheExpertThatTheLayerWaitsFor) {
  const LatencyWindow fast = Steady(8), slow = Steady(40);
  LayerForecast layer;
  const std::vector<LayerForecast::Copy> of_fast = {{&fast, {}, {}}}, of_slow = {{&slow, {}, {}}};
  const size_t first = layer.AddExpert(of_fast), last = layer.AddExpert(of_slow);
  // Points of time stand a quarter apart.
  EXPECT_NEAR(layer.WeightedUs(), 40'000, 10'000);
  EXPECT_NEAR(layer.WeightedUsWith(last, {&fast, {}, {}}), 8'000, 2'000);
  EXPECT_NEAR(layer.WeightedUsWith(first, {&fast, {}, {}}), layer.WeightedUs(), 1);
  EXPECT_GT(layer.WeightedUsWith(last, {&fast, {}, Milliseconds(30)}), 30'000)
      << "what is computed first is waited for";
  layer.AddCopy(last, {&fast, {}, {}});
  EXPECT_NEAR(layer.WeightedUs(), 8'000, 2'000);
}

TEST(LayerForecast, WhoIsLateIsLikelyToStall) {
  const LatencyWindow stalling = Stalling();
  const auto after = [&stalling](Duration waited) {
    LayerForecast layer;
    const std::vector<LayerForecast::Copy> copies = {{&stalling, waited, {}}};
    layer.AddExpert(copies);
    return layer.WeightedUs();
  };
  EXPECT_LT(after({}), after(Milliseconds(10)));
  EXPECT_NEAR(after(Milliseconds(10)), 290'000, 60'000);
  EXPECT_NEAR(after(Milliseconds(200)), 100'000, 25'000);
  EXPECT_GT(after(Milliseconds(400)), 200'000) << "longer than ever: as long again";
}

}  // namespace
}  // namespace weft::dispatch
