// Perplexity of a text under a model, and how much probability lies beyond its k best tokens.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::apps {

// Sums over predicted tokens; add rows as they come.
class TextEvaluation {
 public:
  // Numbers of candidates whose tails are counted.
  static constexpr std::array<uint32_t, 9> kCandidateCounts = {1, 2, 4, 8, 16, 32, 64, 128, 256};

  explicit TextEvaluation(uint32_t vocabulary) : vocabulary_(vocabulary) {}

  // logits [rows, vocabulary]: row i predicts next_ids[i]. kInvalidData for an id outside the
  // vocabulary or a logit that is not finite.
  Status Add(std::span<const float> logits, std::span<const int32_t> next_ids);

  uint64_t tokens() const { return tokens_; }
  // exp of the mean negative log-likelihood. REQUIRES: tokens() > 0.
  double Perplexity() const;
  // Mean over positions of the probability beyond the k best tokens. A draw among k candidates is
  // so far (in total variation) from a draw from the whole distribution. REQUIRES: tokens() > 0.
  double MeanTail(size_t index) const;
  double HighestTail(size_t index) const { return highest_tail_[index]; }

 private:
  Status AddRow(std::span<const float> logits, int32_t next_id);

  uint32_t vocabulary_;
  uint64_t tokens_ = 0;
  double negative_log_likelihood_ = 0;
  std::array<double, kCandidateCounts.size()> tail_{};
  std::array<double, kCandidateCounts.size()> highest_tail_{};
  std::vector<double> weights_;
};

// The documents of a JSON-lines file: each line a string, or an object with the field "text".
// Errors name the line.
Result<std::vector<std::string>> ReadDocuments(const std::string& path);

}  // namespace weft::apps
