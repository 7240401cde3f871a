// Draws from whole rows of logits at the edges of every parameter; golden tokens are in
// sampling_test.cc.
#include "sampling/draw.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::sampling {
namespace {

TEST(Draw, Edges) {
  const std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(Draw({.temperature = 0}, logits, 0.9), 1);
  EXPECT_EQ(Draw({.top_p = 0}, logits, 0.9999), 1);
  EXPECT_EQ(Draw({.top_k = 2}, logits, 0.9999), 2);
  EXPECT_EQ(Draw({.min_p = 1}, logits, 0.9999), 2);
  EXPECT_EQ(Draw({}, logits, 1 - 0x1p-53), 0);
  EXPECT_EQ(Draw({.top_k = 1000}, logits, 1 - 0x1p-53), 0);
  EXPECT_EQ(Draw({.temperature = 1e-6f}, logits, 0.49), 1);
  EXPECT_EQ(Draw({.temperature = 1e-6f}, logits, 0.51), 2);
  const std::vector<float> one = {-7};
  EXPECT_EQ(Draw({}, one, 0.5), 0);
}

// Beyond the first 256 that are sorted.
TEST(Draw, WalksTheWholeTail) {
  const std::vector<float> logits(10'000, 0.25f);
  for (const int32_t id : {0, 255, 256, 1023, 1024, 5000, 9999})
    EXPECT_EQ(Draw({}, logits, (id + 0.5) / 10'000), id);
}

}  // namespace
}  // namespace weft::sampling
