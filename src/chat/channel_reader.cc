// Answers that are messages with channels, as gpt-oss writes them (harmony):
//
//   <|channel|>analysis<|message|>The user asks ...<|end|>
//   <|start|>assistant to=functions.f<|channel|>commentary json<|message|>{"x": 1}<|call|>
//   <|start|>assistant<|channel|>final<|message|>It is 21 degrees.<|return|>
//
// The prompt ends with <|start|>assistant.
#include <algorithm>
#include <utility>

#include "chat/answer_reader.h"
#include "chat/literal.h"
#include "chat/marker_search.h"

namespace weft::chat {
namespace {

// A head that goes on for longer is a text without one.
constexpr size_t kMaxHeadBytes = 512;

class ChannelReader : public AnswerReader {
 public:
  ChannelReader(const ParserOptions& options, EventSink& sink)
      : options_(options),
        sink_(sink),
        markers_({"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>",
                  "<|constrain|>"}) {}

  void Push(std::string_view text) override {
    if (sink_.is_done()) return;
    pending_ += text;
    size_t at = 0;
    while (at < pending_.size() && !sink_.is_done()) {
      const MarkerSearch::Hit hit = markers_.Find(pending_, at);
      Take(std::string_view(pending_).substr(at, hit.at - at));
      at = hit.at;
      if (hit.marker == nullptr) break;
      Meet(*hit.marker);
      at += hit.marker->size();
    }
    pending_.erase(0, at);
  }

  void Flush() override {
    Take(std::exchange(pending_, {}));
    if (in_head_ && !has_marker_) sink_.Content(std::exchange(head_, {}));
    EndBody();
  }

  bool is_thinking() const override { return !in_head_ && in_analysis_; }

 private:
  void Take(std::string_view text) {
    if (in_head_) {
      head_ += text;
      if (head_.size() <= kMaxHeadBytes) return;
      in_head_ = in_analysis_ = false;
      called_.clear();
      sink_.Content(std::exchange(head_, {}));
    } else if (!called_.empty()) {
      body_ += text;
    } else if (in_analysis_ && options_.splits_thinking) {
      sink_.Reasoning(text);
    } else {
      sink_.Content(text);
    }
  }

  void Meet(const std::string& marker) {
    if (marker == "<|constrain|>" && in_head_) {
      head_ += ' ';
    } else if (marker == "<|channel|>" && in_head_) {
      head_ += marker;
      has_marker_ = true;
    } else if (marker == "<|message|>" && in_head_) {
      BeginBody();
    } else {
      if (in_head_ && !has_marker_ && marker != "<|start|>") sink_.Content(head_);
      EndBody();
      head_ = marker == "<|channel|>" ? marker : "";
      has_marker_ = true;
      in_head_ = true;
    }
  }

  void BeginBody() {
    in_head_ = false;
    const size_t channel = head_.find("<|channel|>");
    in_analysis_ =
        channel != std::string::npos && head_.find("analysis", channel) != std::string::npos;
    const size_t to = head_.find("to=");
    called_ = to == std::string::npos ? "" : head_.substr(to + 3);
    called_.resize(std::min(called_.size(), called_.find_first_of(" <\n")));
    if (called_.starts_with("functions.")) called_.erase(0, std::string("functions.").size());
    if (!options_.parses_calls || !IsCallName(called_)) called_.clear();
    head_.clear();
  }

  void EndBody() {
    if (in_head_) return;
    if (in_analysis_ && called_.empty()) sink_.EndReasoning();
    if (called_.empty()) return;
    std::string arguments;
    LiteralReader reader(body_);
    reader.SkipSpace();
    const bool is_empty = reader.AtEnd();
    if (is_empty || (reader.rest().starts_with("{") && reader.Value(&arguments) && reader.AtEnd()))
      sink_.AddCall({called_, is_empty ? "{}" : arguments, ""});
    else
      sink_.Content(body_);
    called_.clear();
    body_.clear();
  }

  const ParserOptions options_;
  EventSink& sink_;
  const MarkerSearch markers_;
  std::string pending_, head_, body_;
  std::string called_;  // the function that the message goes to
  bool in_head_ = true, in_analysis_ = false, has_marker_ = false;
};

}  // namespace

std::unique_ptr<AnswerReader> MakeChannelReader(const ParserOptions& options, EventSink& sink) {
  return std::make_unique<ChannelReader>(options, sink);
}

}  // namespace weft::chat
