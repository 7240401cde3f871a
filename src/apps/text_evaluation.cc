#include "apps/text_evaluation.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <cmath>
#include <functional>

#include "base/file.h"

namespace weft::apps {
namespace json = boost::json;

namespace {

constexpr uint64_t kMaxTextBytes = 1 << 30;

}  // namespace

Status TextEvaluation::Add(std::span<const float> logits, std::span<const int32_t> next_ids) {
  if (logits.size() != next_ids.size() * vocabulary_) {
    return Error(ErrorCode::kInvalidData, std::to_string(logits.size()) + " logits came for " +
                                              std::to_string(next_ids.size()) +
                                              " tokens; expected " + std::to_string(vocabulary_) +
                                              " for each.");
  }
  for (size_t i = 0; i < next_ids.size(); ++i) {
    TRY(AddRow(logits.subspan(i * vocabulary_, vocabulary_), next_ids[i]));
  }
  return OkStatus();
}

Status TextEvaluation::AddRow(std::span<const float> logits, int32_t next_id) {
  if (next_id < 0 || static_cast<uint32_t>(next_id) >= vocabulary_) {
    return Error(ErrorCode::kInvalidData, "The text has the token id " + std::to_string(next_id) +
                                              "; the model's ids end at " +
                                              std::to_string(vocabulary_ - 1) + ".");
  }
  const float best = *std::max_element(logits.begin(), logits.end());
  weights_.clear();
  double sum = 0;
  for (const float logit : logits) {
    if (!std::isfinite(logit)) {
      return Error(ErrorCode::kInvalidData, "The model gave a logit that is not a finite number.");
    }
    weights_.push_back(std::exp(double{logit} - best));
    sum += weights_.back();
  }
  ++tokens_;
  negative_log_likelihood_ += std::log(sum) - (double{logits[static_cast<size_t>(next_id)]} - best);

  const size_t most = std::min<size_t>(kCandidateCounts.back(), weights_.size());
  std::partial_sort(weights_.begin(), weights_.begin() + static_cast<std::ptrdiff_t>(most),
                    weights_.end(), std::greater<>());
  double seen = 0;
  size_t rank = 0;
  for (size_t i = 0; i < kCandidateCounts.size(); ++i) {
    for (; rank < std::min<size_t>(kCandidateCounts[i], most); ++rank) seen += weights_[rank];
    const double tail = rank == weights_.size() ? 0 : std::max(0.0, 1 - seen / sum);
    tail_[i] += tail;
    highest_tail_[i] = std::max(highest_tail_[i], tail);
  }
  return OkStatus();
}

double TextEvaluation::Perplexity() const {
  return std::exp(negative_log_likelihood_ / static_cast<double>(tokens_));
}

double TextEvaluation::MeanTail(size_t index) const {
  return tail_[index] / static_cast<double>(tokens_);
}

Result<std::vector<std::string>> ReadDocuments(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string contents, ReadTextFile(path, kMaxTextBytes));
  std::vector<std::string> documents;
  size_t line_number = 0;
  for (size_t begin = 0; begin < contents.size();) {
    const size_t end = std::min(contents.find('\n', begin), contents.size());
    const std::string_view line(contents.data() + begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.empty()) continue;
    boost::system::error_code failure;
    const json::value value = json::parse(line, failure);
    const json::value* text = &value;
    if (!failure && value.is_object()) text = value.get_object().if_contains("text");
    if (failure || text == nullptr || !text->is_string()) {
      return Error(ErrorCode::kInvalidData, "Line " + std::to_string(line_number) + " of '" + path +
                                                "' is neither a JSON string nor an object with a "
                                                "string 'text'.");
    }
    documents.emplace_back(text->get_string());
  }
  if (documents.empty()) {
    return Error(ErrorCode::kInvalidData, "'" + path + "' holds no documents.");
  }
  return documents;
}

}  // namespace weft::apps
