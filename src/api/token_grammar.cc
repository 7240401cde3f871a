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

 private:
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

}  // namespace weft::api
