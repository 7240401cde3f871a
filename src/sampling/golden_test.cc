// Tokens drawn from whole rows of logits: the edges of every parameter and large vocabularies, in
// tests/golden/sampler.json. tests/golden/make_draws.py wrote them in Python's doubles; the engines
// of the browser (web/packages/engine) read the same file.
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <string>

#include "base/file.h"
#include "base/random.h"
#include "sampling/draw.h"

namespace weft::sampling {
namespace {

namespace json = boost::json;

std::string GoldenPath() {
  return std::string(WEFT_SOURCE_DIR) + "/tests/golden/sampler.json";
}

float Number(const json::object& c, std::string_view name) {
  return static_cast<float>(c.at(name).to_number<double>());
}

// A few high ones and many low ones; with `levels` many equal ones.
std::vector<float> LogitsOf(const json::object& c) {
  const auto vocabulary = c.at("vocabulary").to_number<int32_t>();
  const auto seed = c.at("logits_seed").to_number<uint64_t>();
  const float spread = Number(c, "spread"), levels = Number(c, "levels");
  std::vector<float> logits;
  for (int32_t id = 0; id < vocabulary; ++id) {
    const double wide = CounterDouble(seed, static_cast<uint64_t>(id), 0);
    const float uniform = static_cast<float>(std::floor(wide * 0x1p24)) * 0x1p-24f;
    const float square = uniform * uniform;
    const float fourth = square * square;
    float logit = fourth * spread;
    if (levels > 0) logit = std::floor(logit * levels) / levels;
    logits.push_back(logit);
  }
  return logits;
}

Parameters ParamsOf(const json::object& c) {
  Parameters params;
  params.temperature = Number(c, "temperature");
  params.top_k = c.at("top_k").to_number<int32_t>();
  params.top_p = Number(c, "top_p");
  params.min_p = Number(c, "min_p");
  params.repetition_penalty = Number(c, "repetition_penalty");
  params.presence_penalty = Number(c, "presence_penalty");
  params.frequency_penalty = Number(c, "frequency_penalty");
  for (const json::value& bias : c.at("logit_bias").as_array())
    params.logit_bias.push_back({bias.as_array()[0].to_number<int32_t>(),
                                 static_cast<float>(bias.as_array()[1].to_number<double>())});
  return params;
}

json::array TokensOf(const json::object& c) {
  const std::vector<float> logits = LogitsOf(c);
  const Parameters params = ParamsOf(c);
  const std::string_view digits = c.at("seed").as_string();
  uint64_t seed = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  const auto first = c.at("first_position").to_number<uint64_t>();
  std::vector<int32_t> history;
  for (const json::value& id : c.at("history").as_array())
    history.push_back(id.to_number<int32_t>());
  json::array tokens;
  for (uint64_t i = 0; i < c.at("count").to_number<uint64_t>(); ++i)
    tokens.push_back(
        DrawAfterPenalties(params, history, logits, CounterDouble(seed, first + i, 0)));
  return tokens;
}

TEST(SamplerGolden, TokensOfWholeRows) {
  const auto file = ReadTextFile(GoldenPath());
  ASSERT_TRUE(file.ok()) << file.error().message();
  const json::value golden = json::parse(file.value());
  const json::array& cases = golden.at("cases").as_array();
  ASSERT_GT(cases.size(), 20u);
  for (const json::value& c : cases)
    EXPECT_EQ(c.at("tokens").as_array(), TokensOf(c.as_object())) << json::serialize(c);
}

}  // namespace
}  // namespace weft::sampling
