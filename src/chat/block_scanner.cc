#include "chat/block_scanner.h"

namespace weft::chat {
namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";

}  // namespace

BlockScanner::BlockScanner(const CallSyntax& syntax) : syntax_(syntax) {
  if (syntax.form == CallForm::kPython) strings_ = Strings::kPython;
  if (syntax.form == CallForm::kGemma) strings_ = Strings::kGemma;
  if (syntax.keeps_begin) {
    inside_ = syntax.begin;
    has_begun_ = true;
  }
}

std::string BlockScanner::Whole() const {
  return (syntax_.keeps_begin ? "" : syntax_.begin) + inside_ + (has_ended_ ? syntax_.end : "");
}

// What the first byte tells of the rest; false: no call begins so.
bool BlockScanner::Begins(char c) {
  has_begun_ = true;
  const bool has_json = c == '{' || c == '[';
  switch (syntax_.form) {
    case CallForm::kAny:
      if (has_json) strings_ = Strings::kJson;
      if (!has_json && syntax_.end.empty()) return false;
      reads_name_ = !has_json && c != '<';
      return true;
    case CallForm::kNamed:
      if (has_json || !syntax_.call.empty()) return true;
      reads_name_ = true;
      return true;
    case CallForm::kPython:
      return c == '[';
    case CallForm::kGemma:
    case CallForm::kElements:
      return true;
  }
  return true;
}

// Whether the byte belongs to a string, its quotes included.
bool BlockScanner::TakesQuote(char c) {
  if (quote_ != 0) {
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (c == '\\') {
      is_escaped_ = true;
    } else if (c == quote_) {
      quote_ = 0;
    }
    return true;
  }
  const bool opens = c == '"' || (c == '\'' && strings_ == Strings::kPython);
  if (opens) quote_ = c;
  return opens;
}

BlockScanner::State BlockScanner::Push(char c) {
  inside_ += c;
  if (!has_begun_) {
    if (c == ' ' || c == '\n' || c == '\r' || c == '\t') return State::kOpen;
    if (!Begins(c)) return State::kBroken;
  }
  // <tool_call>get_weather\n<arg_key>..., but not: <tool_call> marks a call
  if (reads_name_) {
    if (c == '{' || c == '<') {
      reads_name_ = false;
    } else if (++name_bytes_ > kMaxCallNameBytes || c == ' ') {
      return State::kBroken;
    }
  }
  return syntax_.end.empty() ? PushToBracket(c) : PushToMarker(c);
}

BlockScanner::State BlockScanner::PushToMarker(char c) {
  if (strings_ == Strings::kGemma) {
    if (c == '>' && inside_.ends_with(kGemmaQuote)) quote_ = quote_ == 0 ? '"' : 0;
    if (quote_ != 0) return State::kOpen;
  } else if (strings_ != Strings::kNone && TakesQuote(c)) {
    return State::kOpen;
  }
  if (c != syntax_.end.back() || !inside_.ends_with(syntax_.end)) return State::kOpen;
  inside_.resize(inside_.size() - syntax_.end.size());
  has_ended_ = true;
  return State::kEnded;
}

// Brackets count from the first one that opens the value: that of [ARGS] is none.
BlockScanner::State BlockScanner::PushToBracket(char c) {
  if (reads_name_) return State::kOpen;
  strings_ = Strings::kJson;
  if (TakesQuote(c)) return State::kOpen;
  if (c == '{' || c == '[') ++depth_;
  if (c != '}' && c != ']') return State::kOpen;
  if (--depth_ > 0) return State::kOpen;
  has_ended_ = depth_ == 0;
  return has_ended_ ? State::kEnded : State::kBroken;
}

}  // namespace weft::chat
