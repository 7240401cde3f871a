// A grammar as what the tokens of an answer have to be (sampling/constraint.h): the automaton of a
// request over the vocabulary of its model.
#pragma once

#include <memory>
#include <string>

#include "grammar/automaton.h"
#include "grammar/token_trie.h"
#include "sampling/constraint.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

class TokenGrammar : public sampling::Constraint {
 public:
  // `begins_behind`: a text of the model, special tokens included, that ends what it thinks: up to
  // it any token may come but an end, and the grammar is for what follows. "": it is for all.
  TokenGrammar(std::shared_ptr<const grammar::Automaton> automaton,
               std::shared_ptr<const grammar::TokenTrie> trie, const Tokenizer& tokenizer,
               std::string begins_behind)
      : automaton_(std::move(automaton)),
        trie_(std::move(trie)),
        tokenizer_(tokenizer),
        begins_behind_(std::move(begins_behind)) {}

  std::unique_ptr<sampling::AnswerState> Begin() const override;

 private:
  const std::shared_ptr<const grammar::Automaton> automaton_;
  const std::shared_ptr<const grammar::TokenTrie> trie_;
  const Tokenizer tokenizer_;
  const std::string begins_behind_;
};

}  // namespace weft::api
