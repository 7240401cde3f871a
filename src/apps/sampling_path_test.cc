// The whole way of a sampled token: logits of a row, the last stage's answer over the wire, the
// orchestrator's choice, and where the candidates do not settle it the stage's own draw. Together
// they are sampling from all logits.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/random.h"
#include "engine/select.h"
#include "sampling/choose.h"
#include "sampling/draw.h"
#include "sampling/penalize.h"
#include "wire/data_frame.h"

namespace weft::apps {
namespace {

constexpr uint32_t kVocabulary = 1500;
constexpr int kDraws = 10'000;

std::vector<float> RandomLogits() {
  SeededRandom random(3);
  std::vector<float> logits(kVocabulary);
  // A few likely tokens and a long tail, as language models have.
  for (float& logit : logits)
    logit = static_cast<float>(-1.3 * std::log(random.Uniform() + 1e-12) + random.Uniform() - 4);
  return logits;
}

struct Setting {
  const char* name;
  sampling::Parameters params;
  std::vector<int32_t> history;
};

std::vector<Setting> Settings(const std::vector<float>& logits) {
  std::vector<int32_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return logits[static_cast<size_t>(a)] > logits[static_cast<size_t>(b)];
  });
  // The best 300 were seen: they fall behind tokens that no list of 256 raw candidates holds.
  const std::vector<int32_t> best(order.begin(), order.begin() + 300);
  std::vector<Setting> settings;
  for (const float temperature : {0.7f, 1.0f, 1.5f, 2.0f}) {
    const sampling::Parameters plain{.temperature = temperature};
    settings.push_back({"plain", plain, {}});
    settings.push_back({"top_p", plain, {}});
    settings.back().params.top_p = 0.9f;
    settings.push_back({"min_p", plain, {}});
    settings.back().params.min_p = 0.02f;
    settings.push_back({"penalties", plain, best});
    settings.back().params.repetition_penalty = 1.5f;
    settings.back().params.frequency_penalty = 1.5f;
    settings.push_back({"bias", plain, {}});
    settings.back().params.logit_bias = {
        {order[1000], 9}, {order[1250], 8}, {order[0], -100}, {order[1], -2}};
    settings.push_back({"everything", plain, best});
    sampling::Parameters& all = settings.back().params;
    all.top_k = 400;
    all.top_p = 0.95f;
    all.min_p = 0.005f;
    all.presence_penalty = 2;
    all.logit_bias = {{order[1499], 8}};
  }
  return settings;
}

// The textbook, in doubles.
std::vector<double> Probabilities(std::vector<double> logits, const Setting& setting) {
  const sampling::Parameters& params = setting.params;
  for (const sampling::TokenBias& bias : params.logit_bias)
    logits[static_cast<size_t>(bias.token_id)] += static_cast<double>(bias.bias);
  std::map<int32_t, int> seen;
  for (const int32_t id : setting.history) ++seen[id];
  for (const auto& [id, count] : seen) {
    double& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.presence_penalty + params.frequency_penalty * count;
  }
  std::vector<size_t> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights;
  weights.reserve(order.size());
  for (const size_t id : order)
    weights.push_back(std::exp((logits[id] - logits[order[0]]) / params.temperature));
  const auto sum = [&] {
    double total = 0;
    for (const double weight : weights) total += weight;
    return total;
  };
  if (params.top_k > 0) weights.resize(std::min(weights.size(), static_cast<size_t>(params.top_k)));
  if (params.top_p < 1) {
    const double wanted = params.top_p * sum();
    size_t kept = 0;
    for (double passed = 0; kept < weights.size() && passed < wanted; ++kept)
      passed += weights[kept];
    weights.resize(std::max<size_t>(kept, 1));
  }
  if (params.min_p > 0)
    std::erase_if(weights, [&](double weight) { return weight < params.min_p; });
  const double total = sum();
  std::vector<double> probability(logits.size(), 0);
  for (size_t i = 0; i < weights.size(); ++i) probability[order[i]] = weights[i] / total;
  return probability;
}

engine::Sampling Told(const Setting& setting) {
  return {setting.params, sampling::CountTokens(setting.history)};
}

class Path {
 public:
  Path(const std::vector<float>& logits, const Setting& setting, uint16_t candidate_count)
      : logits_(logits), setting_(setting), sampling_(Told(setting)) {
    const engine::Selection selection =
        Select({engine::OutputKind::kCandidates, candidate_count, &sampling_});
    wire::CandidatesResult result;
    result.logsumexp = selection.logsumexp;
    result.scaled_sum = selection.scaled_sum;
    for (const auto& candidate : selection.candidates)
      result.candidates.push_back({candidate.token_id, candidate.logit});
    std::vector<uint8_t> bytes;
    wire::AppendCandidates(result, bytes);
    const auto received = wire::DecodeCandidates(bytes, candidate_count, kVocabulary).value();
    for (const auto& candidate : received.candidates)
      candidates_.push_back({candidate.token_id, candidate.logit});
    scaled_sum_ = received.scaled_sum;
  }

  int32_t Token(double uniform) {
    const auto chosen =
        sampling::ChooseCandidate(setting_.params, candidates_, scaled_sum_, kVocabulary, uniform);
    if (chosen) return candidates_[*chosen].token_id;
    ++tail_draws_;
    return Select({engine::OutputKind::kDraw, 0, &sampling_, uniform}).drawn.token_id;
  }
  int tail_draws() const { return tail_draws_; }

 private:
  engine::Selection Select(const engine::Output& output) const {
    std::vector<float> row = logits_;
    return engine::SelectRow(kernels::FastKernels(), output, row);
  }

  const std::vector<float>& logits_;
  const Setting& setting_;
  const engine::Sampling sampling_;
  std::vector<sampling::TokenLogit> candidates_;
  double scaled_sum_ = 0;
  int tail_draws_ = 0;
};

// Pearson's statistic in standard deviations from its mean; cells of small expectation together.
// With 10,000 draws a part of 5% of the mass in the wrong place (as a draw among 64 candidates
// alone would put it) moves it by more than 15.
double Deviation(const std::vector<double>& probability, const std::vector<int>& counts) {
  double chi_square = 0, rest_expected = 0, rest_count = 0;
  int cells = -1;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probability[i] * kDraws;
    if (expected < 10) {
      rest_expected += expected;
      rest_count += counts[i];
      continue;
    }
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    ++cells;
  }
  if (rest_expected > 0) {
    chi_square += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++cells;
  }
  const double freedom = std::max(cells, 1);
  return (chi_square - freedom) / std::sqrt(2 * freedom);
}

TEST(SamplingPath, IsSamplingFromAllLogits) {
  const std::vector<float> logits = RandomLogits();
  int asked_again = 0;
  for (const Setting& setting : Settings(logits)) {
    const auto probability =
        Probabilities(std::vector<double>(logits.begin(), logits.end()), setting);
    Path path(logits, setting, 64);
    std::vector<int> counts(kVocabulary);
    for (uint64_t i = 0; i < kDraws; ++i)
      ++counts[static_cast<size_t>(path.Token(CounterDouble(42, i, 0)))];
    EXPECT_LT(Deviation(probability, counts), 5)
        << setting.name << " at temperature " << setting.params.temperature;
    for (size_t id = 0; id < counts.size(); ++id) {
      if (probability[id] > 0) continue;
      EXPECT_EQ(counts[id], 0) << setting.name << " token " << id;
    }
    asked_again += path.tail_draws();
  }
  EXPECT_GT(asked_again, kDraws);
}

// What the test above would say if draws beyond the candidates were made among them.
TEST(SamplingPath, TheTestSeesAMissingTail) {
  const std::vector<float> logits = RandomLogits();
  const Setting setting = {"plain", {}, {}};
  const auto probability =
      Probabilities(std::vector<double>(logits.begin(), logits.end()), setting);
  std::vector<double> kept = probability;
  std::sort(kept.rbegin(), kept.rend());
  double mass = 0;
  for (size_t i = 0; i < 256; ++i) mass += kept[i];
  std::vector<int> counts(kVocabulary);
  for (size_t id = 0; id < counts.size(); ++id)
    if (probability[id] >= kept[255])
      counts[id] = static_cast<int>(std::lround(probability[id] / mass * kDraws));
  EXPECT_GT(Deviation(probability, counts), 15);
}

TEST(SamplingPath, TheNumberOfCandidatesDoesNotMatter) {
  const std::vector<float> logits = RandomLogits();
  for (const Setting& setting : Settings(logits)) {
    Path few(logits, setting, 4), many(logits, setting, 256);
    for (uint64_t i = 0; i < 300; ++i) {
      const double uniform = CounterDouble(7, i, 0);
      const int32_t all =
          sampling::DrawAfterPenalties(setting.params, setting.history, logits, uniform);
      EXPECT_EQ(few.Token(uniform), all) << setting.name << " at " << i;
      EXPECT_EQ(many.Token(uniform), all) << setting.name << " at " << i;
    }
  }
}

}  // namespace
}  // namespace weft::apps
