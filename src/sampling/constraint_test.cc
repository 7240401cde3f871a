#include "sampling/constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "sampling/choose.h"
#include "sampling/draw.h"

namespace weft::sampling {
namespace {

// Every third token is allowed.
class Thirds : public AnswerState {
 public:
  explicit Thirds(int32_t vocabulary) : vocabulary_(vocabulary) {}
  bool Allows(int32_t id) const override { return id % 3 == 0; }
  std::vector<int32_t> Allowed() override {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < vocabulary_; id += 3) ids.push_back(id);
    return ids;
  }
  bool Advance(int32_t id) override { return Allows(id); }
  bool IsOver() const override { return false; }

 private:
  int32_t vocabulary_;
};

std::vector<float> SomeLogits(uint64_t seed, size_t count) {
  SeededRandom random(seed);
  std::vector<float> logits(count);
  for (float& logit : logits) logit = static_cast<float>(6 * random.Uniform());
  return logits;
}

std::vector<TokenLogit> Best(const std::vector<float>& logits, size_t count) {
  std::vector<TokenLogit> best;
  for (size_t id = 0; id < logits.size(); ++id)
    best.push_back({static_cast<int32_t>(id), logits[id]});
  std::ranges::sort(best, [](const TokenLogit& a, const TokenLogit& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token_id < b.token_id;
  });
  best.resize(std::min(count, best.size()));
  return best;
}

double ScaledSum(const std::vector<float>& logits, float best, float temperature) {
  double sum = 0;
  for (const float logit : logits)
    sum += std::exp((static_cast<double>(logit) - best) / temperature);
  return sum;
}

TEST(ChooseAllowed, IsWhatAllLogitsGive) {
  constexpr size_t kVocabulary = 90;
  size_t settled = 0;
  const Parameters kParameters[] = {{.temperature = 0},
                                    {.temperature = 1},
                                    {.temperature = 0.5f, .top_k = 7},
                                    {.temperature = 1.5f, .top_p = 0.8f},
                                    {.temperature = 1, .top_p = 0.9f, .min_p = 0.05f}};
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const std::vector<float> logits = SomeLogits(seed, kVocabulary);
    for (const Parameters& parameters : kParameters) {
      for (const size_t count : {size_t{4}, size_t{40}, kVocabulary}) {
        const std::vector<TokenLogit> best = Best(logits, count);
        Thirds answer(kVocabulary);
        const double uniform = CounterDouble(seed, count, 1);
        const double sum =
            parameters.IsGreedy() ? 0 : ScaledSum(logits, best[0].logit, parameters.temperature);
        const auto chosen = ChooseAllowed(parameters, best, sum, kVocabulary, answer, uniform);
        const auto drawn = DrawAllowed(parameters, logits, answer, uniform);
        ASSERT_TRUE(drawn);
        EXPECT_TRUE(answer.Allows(*drawn));
        EXPECT_TRUE(chosen || count < kVocabulary) << seed;
        if (!chosen) continue;
        ++settled;
        EXPECT_EQ(best[*chosen].token_id, *drawn) << seed << " of " << count;
      }
    }
  }
  EXPECT_GT(settled, 400u * 5 * 3 / 2);
}

// Drawing, and once more where that was refused, gives each token as often as its share of what is
// allowed.
TEST(ChooseAllowed, KeepsTheDistribution) {
  const std::vector<float> logits = {0, 1, 2, 0.5f, 1.5f, 0, 1};
  const Parameters parameters{.temperature = 1};
  Thirds answer(7);
  double allowed_sum = 0;
  for (const size_t id : {0, 3, 6}) allowed_sum += std::exp(logits[id]);
  std::vector<int> counts(7, 0);
  constexpr int kDraws = 60'000;
  for (int i = 0; i < kDraws; ++i) {
    const auto position = static_cast<uint64_t>(i);
    int32_t id = Draw(parameters, logits, CounterDouble(5, position, 0));
    if (!answer.Allows(id))
      id = *DrawAllowed(parameters, logits, answer, CounterDouble(5, position, 1));
    ++counts[static_cast<size_t>(id)];
  }
  for (const size_t id : {0, 3, 6})
    EXPECT_NEAR(counts[id], kDraws * std::exp(logits[id]) / allowed_sum, 600) << id;
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), kDraws);
}

TEST(DrawAllowed, IsNothingWhereNothingIsAllowed) {
  class Nothing : public Thirds {
   public:
    Nothing() : Thirds(0) {}
  } nothing;
  EXPECT_FALSE(DrawAllowed({}, SomeLogits(1, 5), nothing, 0.5));
}

}  // namespace
}  // namespace weft::sampling
