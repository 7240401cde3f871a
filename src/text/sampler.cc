#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <vector>

namespace weft {
namespace {

constexpr size_t kMaxBiases = 1024;
constexpr float kMaxBias = 100;

Status CheckRange(std::string_view name, float value, float lowest, float highest) {
  if (value >= lowest && value <= highest) return OkStatus();  // false for NaN
  const auto number = [](float x) {
    std::string text = std::to_string(x);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) text.pop_back();
    return text;
  };
  return Error(ErrorCode::kInvalidArgument, std::string(name) + " is " + number(value) +
                                                ", but must be from " + number(lowest) + " to " +
                                                number(highest) + ".");
}

// Which of the candidates may be drawn, and what of the tokens beyond them.
struct Kept {
  std::vector<double> weights;  // of the candidates that are kept, the best one's is 1
  double beyond = 0;            // mass of the other tokens that are kept
  bool open = false;            // there are, or may be, such tokens

  double ListedMass() const {
    double sum = 0;
    for (const double weight : weights) sum += weight;
    return sum;
  }
  void KeepFirst(size_t count) {
    weights.resize(count);
    beyond = 0;
    open = false;
  }
};

// False: the candidates do not settle it.
bool KeepTopK(int32_t top_k, Kept& kept) {
  if (top_k <= 0) return true;
  const auto wanted = static_cast<size_t>(top_k);
  if (wanted <= kept.weights.size()) {
    kept.KeepFirst(wanted);
    return true;
  }
  return !kept.open;
}

// The smallest set with at least top_p of the mass, and at least one token.
bool KeepTopP(float top_p, Kept& kept) {
  if (top_p >= 1) return true;
  const double wanted = static_cast<double>(top_p) * (kept.ListedMass() + kept.beyond);
  double sum = 0;
  for (size_t i = 0; i < kept.weights.size(); ++i) {
    sum += kept.weights[i];
    if (sum < wanted) continue;
    kept.KeepFirst(i + 1);
    return true;
  }
  return !kept.open;
}

bool KeepMinP(float min_p, Kept& kept) {
  if (min_p <= 0) return true;
  if (kept.open && kept.weights.back() >= min_p) return false;  // so may be others
  size_t count = 0;
  while (count < kept.weights.size() && kept.weights[count] >= min_p) ++count;
  kept.KeepFirst(count);
  return true;
}

}  // namespace

Status ValidateSampling(const SamplingParams& params) {
  TRY(CheckRange("temperature", params.temperature, 0, 2));
  TRY(CheckRange("top_p", params.top_p, 0, 1));
  TRY(CheckRange("min_p", params.min_p, 0, 1));
  TRY(CheckRange("repetition_penalty", params.repetition_penalty, 0.1f, 10));
  TRY(CheckRange("presence_penalty", params.presence_penalty, -2, 2));
  TRY(CheckRange("frequency_penalty", params.frequency_penalty, -2, 2));
  if (params.top_k < 0) {
    return Error(ErrorCode::kInvalidArgument,
                 "top_k is " + std::to_string(params.top_k) + ", but must be 0 (off) or more.");
  }
  if (params.logit_bias.size() > kMaxBiases) {
    return Error(ErrorCode::kInvalidArgument,
                 "logit_bias has " + std::to_string(params.logit_bias.size()) +
                     " entries; the limit is " + std::to_string(kMaxBiases) + ".");
  }
  for (const LogitBias& bias : params.logit_bias) {
    if (bias.token_id < 0) {
      return Error(
          ErrorCode::kInvalidArgument,
          "logit_bias names the token " + std::to_string(bias.token_id) + ", but ids start at 0.");
    }
    TRY(CheckRange("logit_bias of token " + std::to_string(bias.token_id), bias.bias, -kMaxBias,
                   kMaxBias));
  }
  return OkStatus();
}

void ChangeLogits(const SamplingParams& params, std::span<const int32_t> history,
                  std::span<float> logits) {
  const auto known = [&](int32_t id) { return id >= 0 && static_cast<size_t>(id) < logits.size(); };
  for (const LogitBias& bias : params.logit_bias) {
    if (known(bias.token_id)) logits[static_cast<size_t>(bias.token_id)] += bias.bias;
  }
  if (!params.HasPenalties()) return;
  std::unordered_map<int32_t, uint32_t> counts;
  for (const int32_t id : history) ++counts[id];
  for (const auto& [id, count] : counts) {
    if (!known(id)) continue;
    float& logit = logits[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / params.repetition_penalty : logit * params.repetition_penalty;
    logit -= params.frequency_penalty * static_cast<float>(count);
    logit -= params.presence_penalty;
  }
}

std::optional<size_t> ChooseCandidate(const SamplingParams& params,
                                      std::span<const SampleCandidate> candidates,
                                      double scaled_sum, uint32_t vocabulary, double uniform) {
  CHECK(!candidates.empty(), "sampling needs at least one candidate");
  if (params.IsGreedy()) return 0;
  Kept kept;
  for (const SampleCandidate& candidate : candidates) {
    const double below = static_cast<double>(candidate.logit) - candidates[0].logit;
    kept.weights.push_back(std::exp(below / params.temperature));
  }
  kept.open = candidates.size() < vocabulary;
  if (kept.open) kept.beyond = std::max(0.0, scaled_sum - kept.ListedMass());
  if (!KeepTopK(params.top_k, kept) || !KeepTopP(params.top_p, kept) ||
      !KeepMinP(params.min_p, kept))
    return std::nullopt;
  const double target = uniform * (kept.ListedMass() + kept.beyond);
  double sum = 0;
  for (size_t i = 0; i < kept.weights.size(); ++i) {
    sum += kept.weights[i];
    if (sum > target) return i;
  }
  if (kept.open) return std::nullopt;
  return kept.weights.size() - 1;  // rounding: nothing lies beyond
}

int32_t SampleLogits(const SamplingParams& params, std::span<const int32_t> history,
                     std::span<const float> logits, double uniform) {
  std::vector<float> changed(logits.begin(), logits.end());
  ChangeLogits(params, history, changed);
  std::vector<SampleCandidate> all;
  for (const float logit : changed) all.push_back({static_cast<int32_t>(all.size()), logit});
  std::stable_sort(all.begin(), all.end(), [](const SampleCandidate& a, const SampleCandidate& b) {
    return a.logit > b.logit;
  });
  const auto index = ChooseCandidate(params, all, 0, static_cast<uint32_t>(all.size()), uniform);
  return all[index.value()].token_id;
}

}  // namespace weft
