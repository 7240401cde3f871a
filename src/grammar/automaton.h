// A grammar in the form that texts are matched with: for each rule an automaton over bytes, whose
// states may also call rules. What a state cannot come to an end from is not in it.
//
//   object ::= "{" pair "}"        0 -{-> 1   1 calls pair, back at 2   2 -}-> 3   3 accepts
//
// Immutable; any number of threads may read it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "grammar/rules.h"
#include "grammar/steps.h"

namespace weft::grammar {

// Of all rules together. A state takes 20 bytes, an edge 8.
inline constexpr size_t kMaxStates = 400'000;

class Automaton {
 public:
  using Edge = grammar::Edge;
  using Call = grammar::Call;
  struct Rule {
    uint32_t start = 0;
    uint32_t least_bytes = 0;  // of its shortest text
    bool nullable() const { return least_bytes == 0; }
  };

  // Errors: kInvalidArgument naming a rule that is not defined, that has no text (it calls itself
  // for ever, or nothing matches it), or that calls itself before anything else; kLimitExceeded.
  static Result<std::shared_ptr<const Automaton>> Compile(const Rules& rules, RuleId root);

  std::span<const Edge> edges(uint32_t state) const {
    return {edges_.data() + states_[state].first_edge,
            edges_.data() + states_[state + 1].first_edge};
  }
  std::span<const Call> calls(uint32_t state) const {
    return {calls_.data() + states_[state].first_call,
            calls_.data() + states_[state + 1].first_call};
  }
  // The rule may end here.
  bool accepts(uint32_t state) const { return states_[state].accepts; }
  // Nothing but bytes leads on from here, and the rule does not end here.
  bool is_plain(uint32_t state) const { return states_[state].is_plain; }
  // The rule ends here, and nothing leads on.
  bool is_end(uint32_t state) const { return states_[state].is_end; }
  // The least number of bytes to the end of the rule.
  uint32_t bytes_to_end(uint32_t state) const { return states_[state].bytes_to_end; }
  const Rule& rule(RuleId rule) const { return rules_[rule]; }
  RuleId root() const { return root_; }
  size_t rule_count() const { return rules_.size(); }

 private:
  friend class AutomatonBuilder;
  struct State {
    uint32_t first_edge = 0, first_call = 0;  // the next state's are the ends of its own
    uint32_t bytes_to_end = 0;
    bool accepts = false, is_plain = false, is_end = false;
  };
  std::vector<State> states_;  // and one more
  std::vector<Edge> edges_;
  std::vector<Call> calls_;
  std::vector<Rule> rules_;
  RuleId root_ = 0;
};

}  // namespace weft::grammar
