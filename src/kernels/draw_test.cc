// Draws from whole rows of logits against Python's (tests/golden/make_draws.py), and the sums that
// go with candidates.
#include "kernels/draw.h"

#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json/parse.hpp>
#include <cmath>

#include "base/file.h"
#include "base/random.h"
#include "kernels/kernel_set.h"

namespace weft::kernels {
namespace {

TEST(Draw, GivesTheGoldenTokens) {
  const auto text = ReadTextFile(std::string(WEFT_SOURCE_DIR) + "/tests/golden/draws.json");
  ASSERT_TRUE(text.ok());
  const boost::json::value golden = boost::json::parse(*text);
  ASSERT_GT(golden.at("cases").as_array().size(), 10u);
  for (const auto& c : golden.at("cases").as_array()) {
    const auto number = [&](const char* name) { return c.at(name).to_number<float>(); };
    std::vector<float> logits;
    const auto salt = c.at("salt").to_number<int64_t>();
    for (int64_t i = 0; i < c.at("vocabulary").to_number<int64_t>(); ++i)
      logits.push_back(static_cast<float>((i * i * 37 + i * 101 + salt) % 1009) / 64 - 8);
    std::vector<TokenCount> counts;
    for (const auto& id : c.at("history").as_array()) {
      const auto token_id = id.to_number<int32_t>();
      const auto known = std::find_if(counts.begin(), counts.end(), [&](const TokenCount& count) {
        return count.token_id == token_id;
      });
      if (known == counts.end())
        counts.push_back({token_id, 1});
      else
        ++known->count;
    }
    std::vector<TokenBias> biases;
    for (const auto& bias : c.at("logit_bias").as_array())
      biases.push_back({bias.at(0).to_number<int32_t>(), bias.at(1).to_number<float>()});
    PenalizeReference({logits, number("repetition_penalty"), number("presence_penalty"),
                       number("frequency_penalty"), counts, biases});
    const auto seed = boost::json::parse(c.at("seed").as_string()).to_number<uint64_t>();
    uint64_t position = c.at("first_position").to_number<uint64_t>();
    for (const auto& token : c.at("tokens").as_array()) {
      const DrawArgs args = {
          logits,          number("temperature"), c.at("top_k").to_number<int32_t>(),
          number("top_p"), number("min_p"),       CounterDouble(seed, position++, 0)};
      EXPECT_EQ(Draw(args), token.to_number<int32_t>()) << c.at("name");
    }
  }
}

TEST(Draw, Edges) {
  const std::vector<float> logits = {1, 3, 3, 2};
  EXPECT_EQ(Draw({.logits = logits, .temperature = 0, .uniform = 0.9}), 1);
  EXPECT_EQ(Draw({.logits = logits, .top_p = 0, .uniform = 0.9999}), 1);
  EXPECT_EQ(Draw({.logits = logits, .top_k = 2, .uniform = 0.9999}), 2);
  EXPECT_EQ(Draw({.logits = logits, .min_p = 1, .uniform = 0.9999}), 2);
  EXPECT_EQ(Draw({.logits = logits, .uniform = 1 - 0x1p-53}), 0);
  EXPECT_EQ(Draw({.logits = logits, .top_k = 1000, .uniform = 1 - 0x1p-53}), 0);
  EXPECT_EQ(Draw({.logits = logits, .temperature = 1e-6f, .uniform = 0.49}), 1);
  EXPECT_EQ(Draw({.logits = logits, .temperature = 1e-6f, .uniform = 0.51}), 2);
  const std::vector<float> one = {-7};
  EXPECT_EQ(Draw({.logits = one, .uniform = 0.5}), 0);
}

// Beyond the first 256 that are sorted.
TEST(Draw, WalksTheWholeTail) {
  const std::vector<float> logits(10'000, 0.25f);
  for (const int32_t id : {0, 255, 256, 1023, 1024, 5000, 9999})
    EXPECT_EQ(Draw({.logits = logits, .uniform = (id + 0.5) / 10'000}), id);
}

TEST(ScaledSum, VectorsAgreeWithTheOracle) {
  SeededRandom random(5);
  for (const size_t vocabulary : {1u, 17u, 1000u, 150'001u}) {
    std::vector<float> logits;
    for (size_t i = 0; i < vocabulary; ++i)
      logits.push_back(static_cast<float>(20 * random.Uniform() - 5));
    const float largest = *std::max_element(logits.begin(), logits.end());
    for (const float temperature : {0.1f, 0.7f, 1.0f, 2.0f, 1e-42f}) {
      const ScaledSumArgs args = {logits, largest, temperature};
      const double expected = ScaledSumReference(args);
      EXPECT_NEAR(FastKernels().scaled_sum(args) / expected, 1, 2e-6)
          << vocabulary << " at " << temperature;
    }
  }
}

}  // namespace
}  // namespace weft::kernels
