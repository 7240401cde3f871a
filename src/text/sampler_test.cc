// Sampling from candidates against sampling from all logits: the same token for the same number
// drawn, and the distribution that the textbook formulas give.
#include "text/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/random.h"

namespace weft {
namespace {

using testing::HasSubstr;

struct Model {
  std::vector<float> logits;
  std::vector<SampleCandidate> sorted;  // all of them, by falling logit
  float logsumexp = 0;

  explicit Model(std::vector<float> all) : logits(std::move(all)) {
    double sum = 0;
    for (size_t i = 0; i < logits.size(); ++i) {
      sorted.push_back({static_cast<int32_t>(i), logits[i]});
      sum += std::exp(static_cast<double>(logits[i]));
    }
    logsumexp = static_cast<float>(std::log(sum));
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const auto& a, const auto& b) { return a.logit > b.logit; });
  }
  std::span<const SampleCandidate> Best(size_t k) const {
    return std::span(sorted).first(std::min(k, sorted.size()));
  }
  std::optional<float> Scaled(const SamplingParams& params) const {
    if (params.IsGreedy()) return std::nullopt;
    double sum = 0;
    for (const float logit : logits) sum += std::exp(logit / params.temperature);
    return static_cast<float>(std::log(sum));
  }
  uint32_t vocabulary() const { return static_cast<uint32_t>(logits.size()); }
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
std::vector<double> Reference(const Model& model, const SamplingParams& params,
                              const std::map<int32_t, int>& seen) {
  const size_t n = model.logits.size();
  std::vector<double> logits(model.logits.begin(), model.logits.end());
  for (const LogitBias& bias : params.logit_bias)
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

// Draws as the swarm does: few candidates first, more where the draw falls into the tail.
struct Asked {
  int32_t token_id;
  size_t candidate_count;
};
Asked SampleAsking(const Model& model, const SamplingParams& params,
                   std::span<const int32_t> history, uint64_t seed, uint64_t position) {
  for (const size_t k : {size_t{8}, size_t{64}, size_t{256}, model.logits.size()}) {
    const auto sampled = Sample(params, model.Best(k), model.logsumexp, history, seed, position,
                                model.vocabulary(), k > 8 ? model.Scaled(params) : std::nullopt);
    if (!sampled.in_tail) return {sampled.token_id, k};
  }
  ADD_FAILURE() << "all logits are not enough";
  return {0, 0};
}

struct Setting {
  const char* name;
  SamplingParams params;
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

TEST(Sampler, DistributionEqualsThatOfAllLogits) {
  constexpr int kDraws = 20'000;
  for (const uint64_t seed : {1u, 2u}) {
    const Model model = RandomModel(seed, 700, 1.2);
    for (const Setting& setting : Settings(model)) {
      std::map<int32_t, int> seen;
      for (const int32_t id : setting.history) ++seen[id];
      const auto probability = Reference(model, setting.params, seen);
      std::vector<int> counts(model.logits.size());
      size_t candidates = 0;
      for (int i = 0; i < kDraws; ++i) {
        const Asked asked = SampleAsking(model, setting.params, setting.history, seed * 77,
                                         static_cast<uint64_t>(i));
        ++counts[static_cast<size_t>(asked.token_id)];
        candidates += asked.candidate_count;
      }
      // Pearson's chi-square; tokens with small expectation count together.
      double chi_square = 0;
      double rest_expected = 0;
      double rest_count = 0;
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
      EXPECT_LT(static_cast<double>(candidates) / kDraws, 600) << setting.name;
    }
  }
}

TEST(Sampler, FewCandidatesGiveTheTokenOfAllLogits) {
  for (const uint64_t seed : {5u, 6u, 7u}) {
    const Model model = RandomModel(seed, 2000, 1.6);
    for (const Setting& setting : Settings(model)) {
      int different = 0;
      int settled = 0;
      for (uint64_t i = 0; i < 1000; ++i) {
        const auto few = Sample(setting.params, model.Best(128), model.logsumexp, setting.history,
                                seed, i, model.vocabulary(), model.Scaled(setting.params));
        if (few.in_tail) continue;
        ++settled;
        const auto all = Sample(setting.params, model.sorted, model.logsumexp, setting.history,
                                seed, i, model.vocabulary());
        ASSERT_FALSE(all.in_tail);
        different += few.token_id != all.token_id;
      }
      // Sums in another order may differ in the last bit; a draw exactly on an edge is one in ten
      // millions.
      EXPECT_LE(different, 1) << setting.name;
      EXPECT_GT(settled, 300) << setting.name;
    }
  }
}

TEST(Sampler, WithoutTheSizeOfTheVocabularyItAsksMoreButNeverErrs) {
  const Model model = RandomModel(9, 1500, 1.0);
  for (const Setting& setting : Settings(model)) {
    for (uint64_t i = 0; i < 500; ++i) {
      const auto unknown =
          Sample(setting.params, model.Best(256), model.logsumexp, setting.history, 3, i);
      if (unknown.in_tail) continue;
      const auto all = Sample(setting.params, model.sorted, model.logsumexp, setting.history, 3, i,
                              model.vocabulary());
      ASSERT_EQ(unknown.token_id, all.token_id) << setting.name << " at " << i;
    }
  }
}

TEST(Sampler, TailDrawsAreAsFrequentAsTheMissingMass) {
  const Model model = RandomModel(11, 1000, 1.0);
  double mass = 0;
  for (const auto& candidate : model.Best(32))
    mass += std::exp(static_cast<double>(candidate.logit - model.logsumexp));
  int in_tail = 0;
  constexpr int kDraws = 50'000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    in_tail += Sample({}, model.Best(32), model.logsumexp, {}, 1, i, model.vocabulary()).in_tail;
  }
  const double expected = (1 - mass) * kDraws;
  EXPECT_NEAR(in_tail, expected, 5 * std::sqrt(expected));
}

TEST(Sampler, GreedyTakesTheBestAndTheLowerIdOfEqualOnes) {
  const std::vector<SampleCandidate> equal = {{7, 2.0f}, {3, 2.0f}, {9, 1.0f}};
  const float logsumexp = 3;
  SamplingParams greedy{.temperature = 0};
  EXPECT_EQ(Sample(greedy, equal, logsumexp, {}, 1, 1).token_id, 3);
  EXPECT_FALSE(Sample(greedy, equal, logsumexp, {}, 1, 1).in_tail);
  greedy.frequency_penalty = 1.5f;
  const std::vector<int32_t> history = {3, 7};
  EXPECT_EQ(Sample(greedy, equal, logsumexp, history, 1, 1).token_id, 9);
  // A biased token beyond the candidates might be the best: only more candidates can tell.
  greedy = {.temperature = 0, .logit_bias = {{100, 5}}};
  EXPECT_TRUE(Sample(greedy, equal, logsumexp, {}, 1, 1).in_tail);
  greedy.logit_bias = {{100, -5}};
  EXPECT_FALSE(Sample(greedy, equal, logsumexp, {}, 1, 1).in_tail);
}

TEST(Sampler, EqualLogitsAreEquallyLikely) {
  const Model model(std::vector<float>(10, 1.5f));
  std::vector<int> counts(10);
  constexpr int kDraws = 50'000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    ++counts[static_cast<size_t>(Sample({}, model.sorted, model.logsumexp, {}, 4, i, 10).token_id)];
  }
  for (const int count : counts) EXPECT_NEAR(count, kDraws / 10, 5 * std::sqrt(kDraws / 10));
}

TEST(Sampler, EdgeParameters) {
  const Model model = RandomModel(3, 100, 1.0);
  for (uint64_t i = 0; i < 500; ++i) {
    EXPECT_EQ(Sample({.top_p = 0}, model.sorted, model.logsumexp, {}, 1, i, 100).token_id,
              model.sorted[0].token_id);
    EXPECT_EQ(Sample({.top_k = 1}, model.Best(1), model.logsumexp, {}, 1, i, 100).token_id,
              model.sorted[0].token_id);
    EXPECT_EQ(Sample({.min_p = 1}, model.Best(4), model.logsumexp, {}, 1, i, 100).token_id,
              model.sorted[0].token_id);
    // Underflow of everything but the best.
    EXPECT_EQ(
        Sample({.temperature = 1e-5f}, model.Best(4), model.logsumexp, {}, 1, i, 100).token_id,
        model.sorted[0].token_id);
    EXPECT_FALSE(Sample({.top_k = 1000}, model.sorted, model.logsumexp, {}, 1, i, 100).in_tail);
  }
  const auto one = Sample({}, model.Best(1), model.logsumexp, {}, 1, 2, 100);
  EXPECT_EQ(one.token_id, model.sorted[0].token_id);
  EXPECT_NEAR(one.logprob, model.sorted[0].logit - model.logsumexp, 1e-6);
}

TEST(Sampler, ReplaysDrawTheSameToken) {
  const Model model = RandomModel(8, 500, 1.0);
  int changed = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    const auto first = Sample({}, model.sorted, model.logsumexp, {}, 42, i, 500);
    EXPECT_EQ(first.token_id, Sample({}, model.sorted, model.logsumexp, {}, 42, i, 500).token_id);
    changed += first.token_id != Sample({}, model.sorted, model.logsumexp, {}, 43, i, 500).token_id;
  }
  EXPECT_GT(changed, 50);
}

TEST(Sampler, RefusesParametersOutOfRange) {
  const auto message = [](const SamplingParams& params) {
    const Status status = ValidateSampling(params);
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
  EXPECT_THAT(message({.top_p = 1.01f}), HasSubstr("top_p"));
  EXPECT_THAT(message({.min_p = -0.1f}), HasSubstr("min_p"));
  EXPECT_THAT(message({.repetition_penalty = 0}), HasSubstr("repetition_penalty"));
  EXPECT_THAT(message({.presence_penalty = INFINITY}), HasSubstr("presence_penalty"));
  EXPECT_THAT(message({.frequency_penalty = 3}), HasSubstr("frequency_penalty"));
  EXPECT_THAT(message({.logit_bias = {{5, 101}}}), HasSubstr("token 5"));
  EXPECT_THAT(message({.logit_bias = {{-1, 1}}}), HasSubstr("-1"));
  EXPECT_THAT(message({.logit_bias = std::vector<LogitBias>(2000)}), HasSubstr("2000 entries"));
}

}  // namespace
}  // namespace weft
