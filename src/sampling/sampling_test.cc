// Sampling from candidates against sampling from all logits: the same token for the same number
// drawn, and the distribution that the textbook formulas give.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft_source_dir.h>
#include <algorithm>
#include <boost/json/parse.hpp>
#include <cmath>
#include <map>

#include "base/file.h"
#include "base/random.h"
#include "sampling/choose.h"
#include "sampling/draw.h"
#include "sampling/penalize.h"

namespace weft::sampling {
namespace {

using testing::HasSubstr;

struct Model {
  std::vector<float> logits;
  std::vector<TokenLogit> sorted;  // all of them, by falling logit

  explicit Model(std::vector<float> all) : logits(std::move(all)) {
    for (const float logit : logits) sorted.push_back({static_cast<int32_t>(sorted.size()), logit});
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.logit > b.logit; });
  }
  std::span<const TokenLogit> Best(size_t k) const {
    return std::span(sorted).first(std::min(k, sorted.size()));
  }
  // What the last stage gives beside the candidates.
  double ScaledSum(const Parameters& params) const {
    double sum = 0;
    for (const float logit : logits)
      sum += std::exp((static_cast<double>(logit) - sorted[0].logit) / params.temperature);
    return sum;
  }
  uint32_t vocabulary() const { return static_cast<uint32_t>(logits.size()); }

  std::optional<int32_t> Choose(const Parameters& params, size_t k, double uniform) const {
    const double sum = params.IsGreedy() ? 0 : ScaledSum(params);
    const auto index = ChooseCandidate(params, Best(k), sum, vocabulary(), uniform);
    if (!index) return std::nullopt;
    return sorted[*index].token_id;
  }
  Model Changed(const Parameters& params, std::span<const int32_t> history) const {
    std::vector<float> changed = logits;
    Penalize(params, CountTokens(history), changed);
    return Model(std::move(changed));
  }
};

// Logits of about the spread that language models have: a few likely tokens, a long tail.
Model RandomModel(uint64_t seed, size_t vocabulary, double spread) {
  SeededRandom random(seed);
  std::vector<float> logits(vocabulary);
  for (float& logit : logits) {
    const double u = random.Uniform() + 1e-12;
    logit = static_cast<float>(-spread * std::log(u) - 4 + random.Uniform());
  }
  return Model(std::move(logits));
}

// The probabilities by the definitions, on all logits.
std::vector<double> Reference(const Model& model, const Parameters& params,
                              const std::map<int32_t, int>& seen) {
  const size_t n = model.logits.size();
  std::vector<double> logits(model.logits.begin(), model.logits.end());
  for (const TokenBias& bias : params.logit_bias)
    logits[static_cast<size_t>(bias.token_id)] += bias.bias;
  for (const auto& [id, count] : seen) {
    double& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.presence_penalty + params.frequency_penalty * count;
  }
  std::vector<size_t> order(n);
  for (size_t i = 0; i < n; ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> probability(n, 0);
  const auto renormalise = [&](size_t kept) {
    double sum = 0;
    for (size_t i = 0; i < kept; ++i) sum += probability[order[i]];
    for (size_t i = 0; i < n; ++i) {
      if (i < kept) {
        probability[order[i]] /= sum;
      } else {
        probability[order[i]] = 0;
      }
    }
  };
  for (size_t i = 0; i < n; ++i) {
    probability[order[i]] = std::exp((logits[order[i]] - logits[order[0]]) / params.temperature);
  }
  renormalise(n);
  if (params.top_k > 0) renormalise(std::min<size_t>(n, static_cast<size_t>(params.top_k)));
  if (params.top_p < 1) {
    size_t kept = 0;
    for (double sum = 0; kept < n && sum < params.top_p; ++kept) sum += probability[order[kept]];
    renormalise(std::max<size_t>(kept, 1));
  }
  if (params.min_p > 0) {
    const double least = params.min_p * probability[order[0]];
    size_t kept = 0;
    while (kept < n && probability[order[kept]] >= least) ++kept;
    renormalise(kept);
  }
  return probability;
}

struct Setting {
  const char* name;
  Parameters params;
  std::vector<int32_t> history;
};

std::vector<Setting> Settings(const Model& model) {
  const auto nth = [&](size_t i) { return model.sorted[i].token_id; };
  return {{"plain", {}, {}},
          {"cold", {.temperature = 0.6f}, {}},
          {"hot", {.temperature = 1.7f}, {}},
          {"top_k", {.temperature = 0.9f, .top_k = 20}, {}},
          {"top_p", {.top_p = 0.8f}, {}},
          {"top_p_cold", {.temperature = 0.7f, .top_p = 0.95f}, {}},
          {"min_p", {.temperature = 1.2f, .min_p = 0.05f}, {}},
          {"all", {.temperature = 0.8f, .top_k = 30, .top_p = 0.9f, .min_p = 0.02f}, {}},
          {"penalties",
           {.repetition_penalty = 1.3f, .presence_penalty = 0.5f, .frequency_penalty = 0.7f},
           {nth(0), nth(0), nth(1), nth(5), nth(200)}},
          {"bias", {.logit_bias = {{nth(0), -100}, {nth(3), 1.5f}, {nth(300), 4}}}, {}},
          {"negative_penalty", {.temperature = 0.9f, .frequency_penalty = -1}, {nth(2), nth(150)}}};
}

// Draws as the swarm does: few candidates first, all logits where they do not settle the token.
TEST(Sampler, DistributionEqualsThatOfAllLogits) {
  constexpr int kDraws = 20'000;
  for (const uint64_t seed : {1u, 2u}) {
    const Model model = RandomModel(seed, 700, 1.2);
    for (const Setting& setting : Settings(model)) {
      std::map<int32_t, int> seen;
      for (const int32_t id : setting.history) ++seen[id];
      const auto probability = Reference(model, setting.params, seen);
      const Model changed = model.Changed(setting.params, setting.history);
      std::vector<int> counts(model.logits.size());
      for (int i = 0; i < kDraws; ++i) {
        const double uniform = CounterDouble(seed * 77, static_cast<uint64_t>(i), 0);
        const auto chosen = changed.Choose(setting.params, 16, uniform);
        const auto token_id = chosen ? *chosen : *changed.Choose(setting.params, 700, uniform);
        ++counts[static_cast<size_t>(token_id)];
      }
      // Pearson's chi-square; tokens with small expectation count together.
      double chi_square = 0, rest_expected = 0, rest_count = 0;
      int cells = 0;
      for (size_t i = 0; i < counts.size(); ++i) {
        const double expected = probability[i] * kDraws;
        if (probability[i] == 0) {
          EXPECT_EQ(counts[i], 0) << setting.name << " token " << i;
        }
        if (expected < 10) {
          rest_expected += expected;
          rest_count += counts[i];
          continue;
        }
        chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
        ++cells;
      }
      if (rest_expected >= 10) {
        chi_square += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
        ++cells;
      }
      const double freedom = std::max(1, cells - 1);
      // About five standard deviations of the chi-square distribution.
      EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom) + 10)
          << setting.name << " seed " << seed << " cells " << cells;
    }
  }
}

TEST(Sampler, WhatCandidatesSettleIsTheTokenOfAllLogits) {
  const Model model = RandomModel(5, 2000, 1.6);
  for (const Setting& setting : Settings(model)) {
    const Model changed = model.Changed(setting.params, setting.history);
    std::map<size_t, int> settled;
    for (uint64_t i = 0; i < 500; ++i) {
      const double uniform = CounterDouble(5, i, 0);
      const int32_t all =
          DrawAfterPenalties(setting.params, setting.history, model.logits, uniform);
      for (const size_t k : {1, 8, 128, 1999, 2000}) {
        const auto few = changed.Choose(setting.params, k, uniform);
        if (!few) continue;
        ++settled[k];
        ASSERT_EQ(*few, all) << setting.name << " of " << k << " at " << i;
      }
    }
    EXPECT_GT(settled[128], 150) << setting.name;
    EXPECT_GE(settled[1999], settled[128]) << setting.name;
    EXPECT_EQ(settled[2000], 500) << setting.name;
  }
}

TEST(Sampler, TailDrawsAreAsFrequentAsTheMissingMass) {
  const Model model = RandomModel(11, 1000, 1.0);
  for (const float temperature : {0.7f, 1.0f, 2.0f}) {
    const Parameters params{.temperature = temperature};
    double mass = 0;
    for (const auto& candidate : model.Best(32))
      mass +=
          std::exp((candidate.logit - model.sorted[0].logit) / static_cast<double>(temperature));
    mass /= model.ScaledSum(params);
    int in_tail = 0;
    constexpr int kDraws = 10'000;
    for (uint64_t i = 0; i < kDraws; ++i)
      in_tail += model.Choose(params, 32, CounterDouble(1, i, 0)) ? 0 : 1;
    const double expected = (1 - mass) * kDraws;
    EXPECT_NEAR(in_tail, expected, 5 * std::sqrt(expected));
  }
}

// A sum in f32 is rounded by up to 2^-24 of itself, and the border between two tokens with it: what
// it settles is the token of all logits also where the draw falls right on such a border.
TEST(Sampler, AtABorderARoundedSumSettlesNothingElse) {
  const Model model = RandomModel(7, 500, 1.3);
  for (const Parameters& params :
       {Parameters{.temperature = 0.8f}, Parameters{.temperature = 0.8f, .top_p = 0.9f}}) {
    const double sum = model.ScaledSum(params);
    const std::span<const TokenLogit> best = model.Best(64);
    int settled = 0;
    double border = 0;
    for (const TokenLogit& candidate : best) {
      border += std::exp((static_cast<double>(candidate.logit) - best[0].logit) /
                         static_cast<double>(params.temperature));
      for (const double off : {-1e-5, -3e-8, 0.0, 3e-8, 1e-5}) {
        const double uniform = border / sum + off;
        for (const double rounded : {sum * (1 - 6e-8), sum * (1 + 6e-8)}) {
          const auto few = ChooseCandidate(params, best, rounded,
                                           static_cast<uint32_t>(model.logits.size()), uniform);
          if (!few) continue;
          ++settled;
          ASSERT_EQ(best[*few].token_id, Draw(params, model.logits, uniform)) << off;
        }
      }
    }
    EXPECT_GT(settled, 64);
  }
}

TEST(Sampler, CandidatesThatCannotSettleASetAskTheStage) {
  const Model model(std::vector<float>(100, 0.0f));
  EXPECT_FALSE(model.Choose({.top_k = 9}, 8, 0));
  EXPECT_TRUE(model.Choose({.top_k = 8}, 8, 0.999));
  EXPECT_FALSE(model.Choose({.top_p = 0.081f}, 8, 0));
  EXPECT_TRUE(model.Choose({.top_p = 0.079f}, 8, 0.999));
  EXPECT_FALSE(model.Choose({.min_p = 0.5f}, 8, 0));
  std::vector<float> falling(100, -3.0f);
  falling[0] = 0;
  EXPECT_TRUE(Model(falling).Choose({.min_p = 0.5f}, 8, 0.999));
}

// tests/golden/make_draws.py has the same definitions in Python.
TEST(Sampler, DrawsTheGoldenTokens) {
  const auto text = ReadTextFile(std::string(WEFT_SOURCE_DIR) + "/tests/golden/draws.json");
  ASSERT_TRUE(text.ok());
  const boost::json::value golden = boost::json::parse(*text);
  for (const auto& c : golden.at("cases").as_array()) {
    const auto number = [&](const char* name) { return c.at(name).to_number<double>(); };
    Parameters params;
    params.temperature = static_cast<float>(number("temperature"));
    params.top_k = static_cast<int32_t>(number("top_k"));
    params.top_p = static_cast<float>(number("top_p"));
    params.min_p = static_cast<float>(number("min_p"));
    params.repetition_penalty = static_cast<float>(number("repetition_penalty"));
    params.presence_penalty = static_cast<float>(number("presence_penalty"));
    params.frequency_penalty = static_cast<float>(number("frequency_penalty"));
    for (const auto& bias : c.at("logit_bias").as_array())
      params.logit_bias.push_back({bias.at(0).to_number<int32_t>(), bias.at(1).to_number<float>()});
    std::vector<int32_t> history;
    for (const auto& id : c.at("history").as_array()) history.push_back(id.to_number<int32_t>());
    std::vector<float> logits;
    for (int64_t i = 0; i < static_cast<int64_t>(number("vocabulary")); ++i)
      logits.push_back(
          static_cast<float>((i * i * 37 + i * 101 + static_cast<int64_t>(number("salt"))) % 1009) /
              64 -
          8);
    const Model changed = Model(logits).Changed(params, history);
    const auto seed = boost::json::parse(c.at("seed").as_string()).to_number<uint64_t>();
    uint64_t position = c.at("first_position").to_number<uint64_t>();
    for (const auto& token : c.at("tokens").as_array()) {
      const double uniform = CounterDouble(seed, position++, 0);
      const auto expected = token.to_number<int32_t>();
      EXPECT_EQ(DrawAfterPenalties(params, history, logits, uniform), expected) << c.at("name");
      EXPECT_EQ(changed.Choose(params, 50, uniform).value_or(expected), expected) << c.at("name");
    }
  }
}

TEST(Sampler, PenaltiesAndBiasesReachEveryToken) {
  const Model model = RandomModel(9, 3000, 1.0);
  const int32_t last = model.sorted[2999].token_id;
  // The worst token, lifted to the top; the best ones, banned.
  Parameters params{.temperature = 0, .logit_bias = {{last, 100}}};
  EXPECT_EQ(DrawAfterPenalties(params, {}, model.logits, 0), last);
  params.logit_bias.clear();
  for (size_t i = 0; i < 300; ++i) params.logit_bias.push_back({model.sorted[i].token_id, -100});
  EXPECT_EQ(DrawAfterPenalties(params, {}, model.logits, 0), model.sorted[300].token_id);
  params = {.temperature = 0, .presence_penalty = 2};
  std::vector<int32_t> history;
  for (size_t i = 0; i < 2999; ++i) history.push_back(model.sorted[i].token_id);
  std::vector<float> changed = model.logits;
  Penalize(params, CountTokens(history), changed);
  for (size_t i = 0; i < 3000; ++i) {
    const auto id = static_cast<size_t>(model.sorted[i].token_id);
    EXPECT_EQ(changed[id], model.logits[id] - (i < 2999 ? 2 : 0));
  }
}

TEST(Sampler, ChangesComeInTheKernelsOrder) {
  std::vector<float> logits = {2, -2, 1, 0};
  Penalize({.repetition_penalty = 2,
            .presence_penalty = 0.25f,
            .frequency_penalty = 0.5f,
            .logit_bias = {{0, 1}, {2, 5}, {9, 1}}},
           CountTokens(std::vector<int32_t>{0, 1, 1, 77, -1}), logits);
  EXPECT_EQ(logits, (std::vector<float>{(2 + 1) / 2.0f - 0.75f, -2 * 2 - 1.25f, 6, 0}));
}

TEST(Sampler, GreedyTakesTheBestAndTheLowerIdOfEqualOnes) {
  const std::vector<float> equal = {0, 2, 2, 1};
  EXPECT_EQ(DrawAfterPenalties({.temperature = 0}, {}, equal, 0.9), 1);
  EXPECT_EQ(Model(equal).Choose({.temperature = 0}, 1, 0.9), 1);
  Parameters greedy{.temperature = 0, .frequency_penalty = 1.5f};
  EXPECT_EQ(DrawAfterPenalties(greedy, std::vector<int32_t>{1, 2}, equal, 0), 3);
}

TEST(Sampler, EqualLogitsAreEquallyLikely) {
  const Model model(std::vector<float>(10, 1.5f));
  std::vector<int> counts(10);
  constexpr int kDraws = 50'000;
  for (uint64_t i = 0; i < kDraws; ++i)
    ++counts[static_cast<size_t>(*model.Choose({}, 10, CounterDouble(4, i, 0)))];
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 10.0, 5 * std::sqrt(kDraws / 10.0));
}

TEST(Sampler, EdgeParameters) {
  const Model model = RandomModel(3, 100, 1.0);
  const int32_t best = model.sorted[0].token_id;
  for (uint64_t i = 0; i < 500; ++i) {
    const double uniform = CounterDouble(1, i, 0);
    EXPECT_EQ(model.Choose({.top_p = 0}, 4, uniform), best);
    EXPECT_EQ(model.Choose({.top_k = 1}, 1, uniform), best);
    EXPECT_EQ(model.Choose({.min_p = 1}, 4, uniform), best);
    // Underflow of everything but the best.
    EXPECT_EQ(model.Choose({.temperature = 1e-5f}, 4, uniform), best);
    EXPECT_TRUE(model.Choose({.top_k = 1000}, 100, uniform).has_value());
  }
}

TEST(Sampler, RefusesParametersOutOfRange) {
  const auto message = [](const Parameters& params) {
    const Status status = Validate(params);
    return status.ok() ? std::string("ok") : status.error().message();
  };
  EXPECT_EQ(message({}), "ok");
  EXPECT_EQ(message({.temperature = 2, .top_k = 5, .top_p = 0.5f, .logit_bias = {{1, -100}}}),
            "ok");
  EXPECT_THAT(message({.temperature = 2.5f}),
              HasSubstr("temperature is 2.5, but must be from 0 to 2"));
  EXPECT_THAT(message({.temperature = NAN}), HasSubstr("temperature"));
  EXPECT_THAT(message({.temperature = -1}), HasSubstr("temperature"));
  EXPECT_THAT(message({.top_k = -2}), HasSubstr("top_k is -2"));
  EXPECT_THAT(message({.top_k = kMaxTopK + 1}), HasSubstr("top_k is 1048577"));
  EXPECT_THAT(message({.top_p = 1.01f}), HasSubstr("top_p"));
  EXPECT_THAT(message({.min_p = -0.1f}), HasSubstr("min_p"));
  EXPECT_THAT(message({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(message({.presence_penalty = INFINITY}), HasSubstr("presence_penalty"));
  EXPECT_THAT(message({.frequency_penalty = 3}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(message({.logit_bias = {{5, 101}}}), HasSubstr("token 5"));
  EXPECT_THAT(message({.logit_bias = {{-1, 1}}}), HasSubstr("-1"));
  EXPECT_THAT(message({.logit_bias = std::vector<TokenBias>(2000)}), HasSubstr("2000 entries"));
}

}  // namespace
}  // namespace weft::sampling
