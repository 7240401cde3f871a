// A grammar as what the tokens of an answer have to be (sampling/constraint.h): the automaton of a
// request over the vocabulary of its model.
#pragma once

#include <memory>
#include <string>

#include "api/constraint_source.h"
#include "grammar/automaton.h"
#include "grammar/token_trie.h"
#include "sampling/constraint.h"
#include "text/tokenizer/tokenizer.h"

namespace weft::api {

class TokenGrammar : public sampling::Constraint {
 public:
  // `begins_behind`: a text of the model, special tokens included, that ends what it thinks: up to
  // it any token may come but an end, and the grammar is for what follows. "": it is for all.
  // `source`: what the automaton was made of; nullptr: nobody asks for it.
  TokenGrammar(std::shared_ptr<const grammar::Automaton> automaton,
               std::shared_ptr<const grammar::TokenTrie> trie, const Tokenizer& tokenizer,
               std::string begins_behind, std::shared_ptr<const ConstraintSource> source = nullptr)
      : automaton_(std::move(automaton)),
        trie_(std::move(trie)),
        tokenizer_(tokenizer),
        begins_behind_(std::move(begins_behind)),
        source_(std::move(source)) {}

  // The same for an answer whose thoughts are over.
  std::shared_ptr<const TokenGrammar> WithoutThoughts() const {
    return std::make_shared<const TokenGrammar>(automaton_, trie_, tokenizer_, "", source_);
  }
  std::unique_ptr<sampling::AnswerState> Begin() const override;
  std::string Source() const override;

 private:
  const std::shared_ptr<const grammar::Automaton> automaton_;
  const std::shared_ptr<const grammar::TokenTrie> trie_;
  const Tokenizer tokenizer_;
  const std::string begins_behind_;
  const std::shared_ptr<const ConstraintSource> source_;
};

}  // namespace weft::api
