#include "api/token_grammar.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/token_masks.h"

namespace weft::api {
namespace {

// That are looked for at a time.
constexpr size_t kMostForcedBytes = 512;

class GrammarAnswer : public sampling::AnswerState {
 public:
  GrammarAnswer(const std::shared_ptr<const grammar::Automaton>& automaton,
                const std::shared_ptr<const grammar::TokenTrie>& trie, const Tokenizer& tokenizer,
                std::string begins_behind)
      : masks_(automaton, trie),
        matcher_(automaton),
        tokenizer_(tokenizer),
        begins_behind_(std::move(begins_behind)) {}

  bool Allows(int32_t token_id) const override {
    if (begins_behind_.empty()) return masks_.Allows(matcher_, token_id);
    if (masks_.trie().is_end(token_id)) return false;
    const auto first = FirstOfForm(token_id);
    return !first || matcher_.Accepts(*first);
  }

  std::vector<int32_t> Allowed() override {
    if (begins_behind_.empty()) return masks_.Mask(matcher_).Ids();
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < tokenizer_.vocab_count(); ++id)
      if (Allows(id)) ids.push_back(id);
    return ids;
  }

  bool Advance(int32_t token_id) override {
    if (!Allows(token_id)) return false;
    if (begins_behind_.empty()) return matcher_.Advance(masks_.trie().bytes(token_id));
    if (const auto first = FirstOfForm(token_id)) {
      begins_behind_.clear();
      return matcher_.Advance(*first);
    }
    said_ += tokenizer_.TokenBytes(token_id);
    said_.erase(0, said_.size() - std::min(said_.size(), begins_behind_.size()));
    return true;
  }

  bool IsOver() const override { return begins_behind_.empty() && matcher_.IsOver(); }

  // The last token is left to the model where the text goes on: it may write its bytes together
  // with what follows.
  std::vector<int32_t> Forced() const override {
    if (!begins_behind_.empty()) return {};
    const std::string bytes = matcher_.ForcedBytes(kMostForcedBytes);
    if (bytes.size() < 2) return {};
    grammar::Matcher behind = matcher_;
    behind.Advance(bytes);
    std::vector<int32_t> ids = TokensOf(bytes);
    if (!ids.empty() && !behind.IsOver()) ids.pop_back();
    return ids;
  }

 private:
  // As the tokenizer cuts the text; empty where it makes another one of it, with a space in front,
  // or with tokens that are none of a text.
  std::vector<int32_t> TokensOf(const std::string& bytes) const {
    auto ids = tokenizer_.Encode(bytes, /*add_special_tokens=*/false);
    if (!ids.ok()) return {};
    std::string again;
    for (const int32_t id : *ids) again += masks_.trie().bytes(id);
    return again == bytes ? std::move(ids).value() : std::vector<int32_t>();
  }

  // What the token has behind the end of what is thought; nullopt: that goes on.
  std::optional<std::string> FirstOfForm(int32_t token_id) const {
    const std::string text = said_ + tokenizer_.TokenBytes(token_id);
    const size_t found = text.find(begins_behind_);
    if (found == std::string::npos) return std::nullopt;
    return text.substr(found + begins_behind_.size());
  }

  grammar::TokenMasks masks_;
  grammar::Matcher matcher_;
  const Tokenizer tokenizer_;
  std::string begins_behind_;  // "": the form has begun
  std::string said_;           // the end of what came, no longer than that
};

}  // namespace

std::unique_ptr<sampling::AnswerState> TokenGrammar::Begin() const {
  return std::make_unique<GrammarAnswer>(automaton_, trie_, tokenizer_, begins_behind_);
}

std::string TokenGrammar::Source() const {
  if (source_ == nullptr) return "";
  ConstraintSource source = *source_;
  source.begins_behind = begins_behind_;
  return source.ToJson();
}

}  // namespace weft::api
