// Answers whose thoughts and calls stand between markers: <think>...</think>, <tool_call>...
#include <algorithm>
#include <optional>

#include "chat/answer_reader.h"
#include "chat/block_scanner.h"
#include "chat/calls.h"
#include "chat/marker_search.h"

namespace weft::chat {
namespace {

class MarkedReader : public AnswerReader {
 public:
  MarkedReader(const Format& format, std::shared_ptr<const Tools> tools,
               const ParserOptions& options, EventSink& sink)
      : format_(format),
        tools_(std::move(tools)),
        sink_(sink),
        in_content_(ContentMarkers(format, options)),
        in_thoughts_(format.thinking.end.empty() ? std::vector<std::string>()
                                                 : std::vector{format.thinking.end}),
        splits_thinking_(options.splits_thinking && !format.thinking.end.empty()),
        is_thinking_(splits_thinking_ && options.opens_thinking) {
    for (const CallSyntax& syntax : format_.calls)
      if (options.parses_calls && syntax.begin.empty()) bare_ = &syntax;
  }

  void Push(std::string_view text) override {
    if (sink_.is_done()) return;
    pending_ += text;
    size_t at = 0;
    while (at < pending_.size() && !sink_.is_done())
      if (!(scanner_ ? ReadBlock(at) : ReadText(at))) break;
    pending_.erase(0, at);
  }

  void Flush() override {
    if (scanner_) return EndBlock();
    Say(pending_);
    pending_.clear();
  }

  bool is_thinking() const override { return is_thinking_; }

 private:
  static std::vector<std::string> ContentMarkers(const Format& format,
                                                 const ParserOptions& options) {
    std::vector<std::string> markers = format.silent;
    if (options.splits_thinking)
      markers.insert(markers.end(), {format.thinking.begin, format.thinking.end});
    for (const CallSyntax& syntax : format.calls)
      if (options.parses_calls) markers.push_back(syntax.begin);
    std::erase(markers, "");
    return markers;
  }

  void Say(std::string_view text) { is_thinking_ ? sink_.Reasoning(text) : sink_.Content(text); }

  // Both take text from `at` on; false: what is left is not decided yet.
  bool ReadText(size_t& at) {
    const MarkerSearch::Hit hit = (is_thinking_ ? in_thoughts_ : in_content_).Find(pending_, at);
    const std::string_view text = std::string_view(pending_).substr(at, hit.at - at);
    if (const size_t brace = BareCall(text); brace != std::string_view::npos) {
      sink_.Content(text.substr(0, brace));
      at += brace;
      scanner_.emplace(*bare_);
      syntax_ = bare_;
      return true;
    }
    Say(text);
    at = hit.at;
    if (hit.marker == nullptr) return false;
    if (Accepts(*hit.marker)) {
      at += hit.marker->size();
    } else {
      Say(std::string_view(pending_).substr(at, 1));
      ++at;
    }
    return true;
  }

  // Where an answer begins with the { of a call that has no marker.
  size_t BareCall(std::string_view text) const {
    if (bare_ == nullptr || is_thinking_ || !sink_.at_part_start()) return std::string_view::npos;
    const size_t first = text.find_first_not_of(" \t\r\n");
    return first != std::string_view::npos && text[first] == '{' ? first : std::string_view::npos;
  }

  // Thoughts begin where no content came before; elsewhere their markers are words.
  bool Accepts(const std::string& marker) {
    if (marker == format_.thinking.end && (is_thinking_ || sink_.at_part_start())) {
      if (is_thinking_ || !IsSilent(marker)) sink_.EndReasoning();
      is_thinking_ = false;
      return true;
    }
    if (marker == format_.thinking.begin && splits_thinking_) {
      if (!sink_.at_part_start()) return false;
      sink_.EndReasoning();  // what white space came before is nobody's
      is_thinking_ = true;
      return true;
    }
    for (const CallSyntax& syntax : format_.calls) {
      if (marker != syntax.begin) continue;
      scanner_.emplace(syntax);
      syntax_ = &syntax;
      return true;
    }
    return IsSilent(marker);
  }

  bool IsSilent(const std::string& marker) const {
    return std::ranges::find(format_.silent, marker) != format_.silent.end();
  }

  bool ReadBlock(size_t& at) {
    while (at < pending_.size()) {
      const BlockScanner::State state = scanner_->Push(pending_[at++]);
      if (state == BlockScanner::State::kOpen) continue;
      if (state == BlockScanner::State::kEnded) {
        EndBlock();
      } else {
        sink_.Content(scanner_->Whole());
        scanner_.reset();
      }
      return true;
    }
    return true;
  }

  void EndBlock() {
    const std::string& inside = scanner_->inside();
    BlockCalls found = ReadCalls(inside, *syntax_, *tools_);
    const bool is_meant =
        syntax_->begin != "" || std::ranges::all_of(found.calls, [this](const Call& call) {
          return tools_->Has(call.name);
        });
    if (!is_meant) found = {};
    const std::string whole = scanner_->Whole();
    for (const Call& call : found.calls) sink_.AddCall(call);
    if (found.calls.empty()) {
      sink_.Content(whole);
    } else if (found.read_bytes < inside.size()) {
      const size_t left = inside.size() - found.read_bytes + scanner_->end_bytes();
      sink_.Content(std::string_view(whole).substr(whole.size() - left));
    }
    scanner_.reset();
  }

  const Format format_;
  const std::shared_ptr<const Tools> tools_;
  EventSink& sink_;
  const MarkerSearch in_content_, in_thoughts_;
  const bool splits_thinking_;
  const CallSyntax* bare_ = nullptr;
  bool is_thinking_;
  std::string pending_;  // not decided yet
  const CallSyntax* syntax_ = nullptr;
  std::optional<BlockScanner> scanner_;  // while a block is read
};

}  // namespace

std::unique_ptr<AnswerReader> MakeMarkedReader(const Format& format,
                                               std::shared_ptr<const Tools> tools,
                                               const ParserOptions& options, EventSink& sink) {
  return std::make_unique<MarkedReader>(format, std::move(tools), options, sink);
}

}  // namespace weft::chat
