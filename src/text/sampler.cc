#include "text/sampler.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "base/random.h"

namespace weft {
namespace {

// Stands for a vocabulary of unknown size: larger than any real one.
constexpr double kUnknownVocabulary = 1 << 20;
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

// Biases and penalties by token id.
class LogitChanges {
 public:
  LogitChanges(const SamplingParams& params, std::span<const int32_t> history) : params_(params) {
    if (!params.ChangesLogits()) return;
    const bool penalties = params.repetition_penalty != 1 || params.presence_penalty != 0 ||
                           params.frequency_penalty != 0;
    if (penalties) {
      for (const int32_t id : history) ++changes_[id].seen_count;
    }
    for (const LogitBias& bias : params.logit_bias) changes_[bias.token_id].bias += bias.bias;
  }

  double Apply(int32_t id, double logit) const {
    const auto change = changes_.find(id);
    return change == changes_.end() ? logit : Apply(change->second, logit);
  }

  // For each token outside of `candidates` that has a change: the highest logit it can have after
  // it, if its own is at most `highest`. (A change grows with the logit.)
  std::vector<double> BoundsOutside(std::span<const SampleCandidate> candidates,
                                    double highest) const {
    std::vector<double> outside;
    if (changes_.empty()) return outside;
    std::unordered_set<int32_t> inside;
    for (const SampleCandidate& candidate : candidates) inside.insert(candidate.token_id);
    for (const auto& [id, change] : changes_) {
      if (!inside.contains(id)) outside.push_back(Apply(change, highest));
    }
    return outside;
  }

 private:
  struct Change {
    uint32_t seen_count = 0;
    float bias = 0;
  };
  double Apply(const Change& change, double logit) const {
    logit += change.bias;
    if (change.seen_count == 0) return logit;
    const double repetition = params_.repetition_penalty;
    logit = logit > 0 ? logit / repetition : logit * repetition;
    return logit - params_.presence_penalty -
           static_cast<double>(params_.frequency_penalty) * change.seen_count;
  }

  const SamplingParams& params_;
  std::unordered_map<int32_t, Change> changes_;
};

struct Weighted {
  size_t index;   // into the candidates
  double logit;   // after changes
  double weight;  // exp(logit / temperature), relative to the best candidate's
};

// What is known of the tokens beyond the candidates, in units of `Weighted::weight`.
struct Tail {
  double lowest_mass = 0;
  double highest_mass = 0;
  double highest_weight = 0;  // of any one token; 0: there is no tail
  bool exists() const { return highest_weight > 0; }
};

class Draw {
 public:
  Draw(const SamplingParams& params, std::span<const SampleCandidate> candidates, float logsumexp,
       std::span<const int32_t> history, uint32_t vocabulary, std::optional<float> scaled_logsumexp)
      : params_(params),
        candidates_(candidates),
        logsumexp_(logsumexp),
        changes_(params, history),
        // Greedy needs an order only.
        inverse_temperature_(params.IsGreedy() ? 1.0 : 1.0 / params.temperature) {
    Weigh();
    const bool complete = vocabulary != 0 && candidates.size() >= vocabulary;
    if (!complete) {
      BoundTail(vocabulary == 0 ? kUnknownVocabulary : static_cast<double>(vocabulary),
                scaled_logsumexp);
    }
  }

  // Index of the token, or nothing when the tail decides.
  std::optional<size_t> Choose(float uniform) {
    if (params_.IsGreedy()) return Reaches(0) ? std::optional(weighted_[0].index) : std::nullopt;
    if (!KeepTopK() || !KeepTopP() || !KeepMinP()) return std::nullopt;
    const double sum = SumOf(kept_);
    const size_t low = PlaceOf(uniform * (sum + tail_.lowest_mass));
    const size_t high = PlaceOf(uniform * (sum + tail_.highest_mass));
    // A missing token that a bias lifts among the candidates would shift the ones after it.
    if (low != high || low >= kept_ || !Reaches(low)) return std::nullopt;
    return weighted_[low].index;
  }

  // A draw among the candidates, as if there were no others.
  size_t Guess(float uniform) {
    tail_ = {};
    kept_ = weighted_.size();
    return *Choose(uniform);
  }

 private:
  void Weigh() {
    weighted_.reserve(candidates_.size());
    for (size_t i = 0; i < candidates_.size(); ++i) {
      weighted_.push_back({i, changes_.Apply(candidates_[i].token_id, candidates_[i].logit), 0});
    }
    // Of equal logits the lower id comes first, so that the order does not depend on how many
    // candidates there are.
    std::sort(weighted_.begin(), weighted_.end(), [&](const Weighted& a, const Weighted& b) {
      if (a.logit != b.logit) return a.logit > b.logit;
      return candidates_[a.index].token_id < candidates_[b.index].token_id;
    });
    for (Weighted& item : weighted_) item.weight = WeightOf(item.logit);
    kept_ = weighted_.size();
  }

  double WeightOf(double logit) const {
    return std::exp((logit - weighted_[0].logit) * inverse_temperature_);
  }

  void BoundTail(double vocabulary, std::optional<float> scaled_logsumexp) {
    const double best = weighted_[0].logit;
    const double last = candidates_.back().logit;
    const std::vector<double> outside = changes_.BoundsOutside(candidates_, last);
    const double exponent = scaled_logsumexp && !params_.IsGreedy() ? inverse_temperature_ : 1;
    double mass = std::exp((scaled_logsumexp ? *scaled_logsumexp : logsumexp_) - best * exponent);
    for (const SampleCandidate& candidate : candidates_) {
      mass -= std::exp((candidate.logit - best) * exponent);
    }
    mass = std::max(0.0, mass);
    const double most = std::exp((last - best) * exponent);
    // Tokens with changes may have had any part of the mass.
    const double surely = std::max(0.0, mass - static_cast<double>(outside.size()) * most);
    tail_.lowest_mass = surely;
    tail_.highest_mass = mass;
    if (!scaled_logsumexp) {
      const double count = std::max(1.0, vocabulary - static_cast<double>(candidates_.size()));
      Rescale(count, most);
    }
    tail_.highest_weight = WeightOf(last);
    for (const double bound : outside) {
      tail_.highest_mass += WeightOf(bound);
      tail_.highest_weight = std::max(tail_.highest_weight, WeightOf(bound));
    }
  }

  // From sums of exp(logit) to bounds on sums of exp(logit)^t, t = 1 / temperature, over `count`
  // tokens of at most `most`. A sum lies between spreading the mass evenly and heaping it up on as
  // few tokens as possible; which of the two is the larger depends on t > 1.
  void Rescale(double count, double most) {
    const double t = inverse_temperature_;
    const auto heaped = [&](double mass) { return mass * std::pow(most, t - 1); };
    const auto spread = [&](double mass) {
      return count * std::pow(std::min(mass / count, most), t);
    };
    tail_.lowest_mass = t >= 1 ? spread(tail_.lowest_mass) : heaped(tail_.lowest_mass);
    tail_.highest_mass = t >= 1 ? heaped(tail_.highest_mass) : spread(tail_.highest_mass);
  }

  // Whether no missing token can come before place `i`. A missing token as good as the last
  // candidate has a higher id.
  bool Reaches(size_t i) const { return weighted_[i].weight >= tail_.highest_weight; }

  void KeepFirst(size_t count) {
    kept_ = count;
    tail_ = {};
  }

  bool KeepTopK() {
    if (params_.top_k <= 0) return true;
    const auto wanted = static_cast<size_t>(params_.top_k);
    if (wanted > kept_) return !tail_.exists();
    if (!Reaches(wanted - 1)) return false;
    KeepFirst(wanted);
    return true;
  }

  // The smallest set with at least top_p of the mass, and at least one token.
  bool KeepTopP() {
    if (params_.top_p >= 1) return true;
    const double sum = SumOf(kept_);
    const auto count = [&](double total) {
      return PlaceOf(static_cast<double>(params_.top_p) * total, true) + 1;
    };
    const size_t low = count(sum + tail_.lowest_mass);
    const size_t high = count(sum + tail_.highest_mass);
    if (low != high || low > kept_) return !tail_.exists();
    if (!Reaches(low - 1)) return false;
    KeepFirst(low);
    return true;
  }

  bool KeepMinP() {
    if (params_.min_p <= 0) return true;
    if (!Reaches(0)) return false;
    const double threshold = params_.min_p * weighted_[0].weight;
    size_t count = 0;
    while (count < kept_ && weighted_[count].weight >= threshold) ++count;
    if (tail_.highest_weight < threshold) {
      KeepFirst(count);
    } else if (count < kept_) {
      return false;
    } else {
      tail_.lowest_mass = 0;  // part of the tail may be dropped, too
    }
    return true;
  }

  double SumOf(size_t count) const {
    double sum = 0;
    for (size_t i = 0; i < count; ++i) sum += weighted_[i].weight;
    return sum;
  }

  // The first place where the running sum exceeds `target` (or reaches it); kept_ when it never
  // does.
  size_t PlaceOf(double target, bool or_equal = false) const {
    double sum = 0;
    for (size_t i = 0; i < kept_; ++i) {
      sum += weighted_[i].weight;
      if (sum > target || (or_equal && sum >= target)) return i;
    }
    // Without a tail the sum is all there is, up to rounding.
    return tail_.exists() ? kept_ : kept_ - 1;
  }

  const SamplingParams& params_;
  std::span<const SampleCandidate> candidates_;
  double logsumexp_;
  LogitChanges changes_;
  double inverse_temperature_;
  std::vector<Weighted> weighted_;  // by falling logit after changes
  size_t kept_ = 0;                 // the first so many can be drawn
  Tail tail_;
};

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

SampledToken Sample(const SamplingParams& params, std::span<const SampleCandidate> candidates,
                    float logsumexp, std::span<const int32_t> history, uint64_t seed,
                    uint64_t position, uint32_t vocabulary, std::optional<float> scaled_logsumexp) {
  CHECK(!candidates.empty(), "sampling needs at least one candidate");
  Draw draw(params, candidates, logsumexp, history, vocabulary, scaled_logsumexp);
  SampledToken sampled;
  const auto chosen = draw.Choose(params.IsGreedy() ? 0 : CounterUniform(seed, position, 0));
  sampled.in_tail = !chosen.has_value();
  // The guess takes a number of its own: the first one has already said "not among these".
  const size_t index = chosen ? *chosen : draw.Guess(CounterUniform(seed, position, 1));
  sampled.token_id = candidates[index].token_id;
  sampled.logprob = candidates[index].logit - logsumexp;
  return sampled;
}

}  // namespace weft
