// The automaton of one rule while it is made. It first has steps that read nothing, as an
// expression is put together. Then it is without them, and each byte leads to one state where that
// stays small.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "grammar/steps.h"

namespace weft::grammar {

struct StateMachine {
  struct State {
    std::vector<Edge> edges;
    std::vector<Call> calls;
    std::vector<uint32_t> silent;  // steps that read nothing
    bool accepts = false;
  };
  std::vector<State> states;  // the first one is the start

  uint32_t AddState() {
    states.emplace_back();
    return static_cast<uint32_t>(states.size() - 1);
  }
};

// The same texts without silent steps. Every byte and every rule leads from a state to one other,
// unless that took many more states. Then the states are the given ones, and a byte may lead to
// several. `work` is what may still be spent, about a unit for each state that is looked at, and is
// lowered by what was; nullopt: it did not do.
std::optional<StateMachine> WithoutSilentSteps(const StateMachine& machine, size_t& work);

}  // namespace weft::grammar
