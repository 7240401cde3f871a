// Which tokens of a vocabulary may come next in a grammar.
//
//   TokenMasks masks(automaton, trie);
//   if (masks.Allows(matcher, drawn)) ...   // a token: as long as the token is
//   const TokenMask mask = masks.Mask(matcher);   // all of them: see below
//
// A mask is put together from one for each place where the text may be, and those are kept. In the
// middle of a string of JSON nearly all tokens go on with the string. Which ones do does not depend
// on the string's place, and is found once. The few that end it (`",` and the like) are found by
// going on behind it, in whatever it is in.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "grammar/matcher.h"
#include "grammar/token_trie.h"

namespace weft::grammar {

// A bit for each id of the vocabulary.
class TokenMask {
 public:
  explicit TokenMask(size_t vocabulary) : words_((vocabulary + 63) / 64, 0) {}

  void Set(int32_t id) { words_[static_cast<size_t>(id) / 64] |= BitOf(id); }
  bool Has(int32_t id) const {
    return id >= 0 && static_cast<size_t>(id) / 64 < words_.size() &&
           (words_[static_cast<size_t>(id) / 64] & BitOf(id)) != 0;
  }
  void Add(const TokenMask& other) {
    for (size_t i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
  }
  size_t Count() const;
  std::vector<int32_t> Ids() const;
  bool operator==(const TokenMask&) const = default;

 private:
  static uint64_t BitOf(int32_t id) { return uint64_t{1} << (static_cast<size_t>(id) % 64); }

  std::vector<uint64_t> words_;
};

class TokenMasks {
 public:
  TokenMasks(std::shared_ptr<const Automaton> automaton, std::shared_ptr<const TokenTrie> trie);

  // Matchers are those of the same automaton.
  bool Allows(const Matcher& matcher, int32_t id) const;
  TokenMask Mask(const Matcher& matcher);

  const TokenTrie& trie() const { return *trie_; }

 private:
  // What bytes do from one state, whoever has called its rule.
  struct StateMask {
    TokenMask allowed;
    std::vector<uint32_t> leaving;  // nodes of the trie at which the rule may have come to its end
  };
  const StateMask& MaskOf(uint32_t state, Stepper& stepper);
  void AddBehind(const StateMask& mask, const Frame& frame, Stepper& stepper, TokenMask& out) const;
  void AddEnds(const Matcher& matcher, TokenMask& out) const;

  const std::shared_ptr<const Automaton> automaton_;
  const std::shared_ptr<const TokenTrie> trie_;
  std::unordered_map<uint32_t, std::unique_ptr<StateMask>> kept_;  // by state
  size_t kept_bytes_ = 0;
};

}  // namespace weft::grammar
