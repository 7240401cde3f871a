#include "grammar/state_machine.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

namespace weft::grammar {
namespace {

using StateSet = std::vector<uint32_t>;  // in order

// An automaton in which a byte leads to one state may have so many times the states.
constexpr size_t kGrowth = 4, kGrowthBase = 256;

struct HashOfSet {
  size_t operator()(const StateSet& set) const {
    uint64_t hash = set.size();
    for (const uint32_t state : set) hash = (hash ^ state) * 0x9E3779B97F4A7C15u;
    return hash ^ hash >> 32;
  }
};

// All that silent steps lead to from `set`, itself included.
class Reach {
 public:
  explicit Reach(const StateMachine& machine)
      : machine_(machine), seen_(machine.states.size(), 0) {}

  StateSet Of(StateSet set) {
    ++turn_;
    for (const uint32_t state : set) seen_[state] = turn_;
    for (size_t i = 0; i < set.size(); ++i) {
      for (const uint32_t next : machine_.states[set[i]].silent) {
        if (std::exchange(seen_[next], turn_) != turn_) set.push_back(next);
      }
    }
    // States with silent steps alone tell nothing that the others do not.
    std::erase_if(set, [this](uint32_t id) {
      const StateMachine::State& state = machine_.states[id];
      return !state.accepts && state.edges.empty() && state.calls.empty();
    });
    std::sort(set.begin(), set.end());
    return set;
  }

 private:
  const StateMachine& machine_;
  std::vector<uint32_t> seen_;
  uint32_t turn_ = 0;
};

StateSet Unique(StateSet set) {
  std::sort(set.begin(), set.end());
  set.erase(std::unique(set.begin(), set.end()), set.end());
  return set;
}

// The subset construction: a new state is a set of old ones.
class Subsets {
 public:
  Subsets(const StateMachine& machine, size_t most_work)
      : machine_(machine), most_work_(most_work), reach_(machine) {}

  std::optional<StateMachine> Build() {
    const size_t most_states = kGrowth * machine_.states.size() + kGrowthBase;
    IdOf({0});
    for (uint32_t id = 0; id < sets_.size(); ++id) {
      if (sets_.size() > most_states || work_ > most_work_) return std::nullopt;
      AddSteps(id, *sets_[id]);
    }
    return std::move(out_);
  }
  size_t work() const { return work_; }

 private:
  uint32_t IdOf(StateSet set) {
    set = reach_.Of(Unique(std::move(set)));
    work_ += set.size() + 1;
    const auto [entry, added] = ids_.try_emplace(std::move(set), out_.states.size());
    if (added) {
      out_.AddState();
      sets_.push_back(&entry->first);
    }
    return entry->second;
  }

  void AddSteps(uint32_t id, const StateSet& set) {
    std::vector<Edge> edges;
    std::map<RuleId, StateSet> calls;
    bool accepts = false;
    for (const uint32_t state : set) {
      const StateMachine::State& from = machine_.states[state];
      edges.insert(edges.end(), from.edges.begin(), from.edges.end());
      for (const Call& call : from.calls) calls[call.rule].push_back(call.back);
      accepts = accepts || from.accepts;
    }
    out_.states[id].accepts = accepts;
    for (auto& [rule, backs] : calls) {
      const uint32_t back = IdOf(std::move(backs));
      out_.states[id].calls.push_back({rule, back});
    }
    AddEdges(id, edges);
  }

  // Cuts where an edge begins or ends: between two cuts the targets are the same.
  void AddEdges(uint32_t id, const std::vector<Edge>& edges) {
    std::vector<uint32_t> cuts;
    for (const Edge& edge : edges) {
      cuts.push_back(edge.first);
      cuts.push_back(edge.last + 1u);
    }
    cuts = Unique(std::move(cuts));
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      StateSet targets;
      work_ += edges.size();
      for (const Edge& edge : edges)
        if (edge.first <= cuts[i] && cuts[i] <= edge.last) targets.push_back(edge.target);
      if (targets.empty()) continue;
      const uint32_t target = IdOf(std::move(targets));
      auto& out = out_.states[id].edges;
      const auto first = static_cast<uint8_t>(cuts[i]),
                 last = static_cast<uint8_t>(cuts[i + 1] - 1);
      if (!out.empty() && out.back().last + 1 == first && out.back().target == target)
        out.back().last = last;
      else
        out.push_back({first, last, target});
    }
  }

  const StateMachine& machine_;
  const size_t most_work_;
  size_t work_ = 0;
  Reach reach_;
  std::unordered_map<StateSet, uint32_t, HashOfSet> ids_;
  std::vector<const StateSet*> sets_;  // by id
  StateMachine out_;
};

// Each state with the steps of all that it reaches.
std::optional<StateMachine> Flattened(const StateMachine& machine, size_t& work) {
  Reach reach(machine);
  StateMachine out;
  for (uint32_t id = 0; id < machine.states.size(); ++id) {
    StateMachine::State& to = out.states.emplace_back();
    for (const uint32_t state : reach.Of({id})) {
      const StateMachine::State& from = machine.states[state];
      const size_t cost = 1 + from.edges.size() + from.calls.size();
      if (cost > work) return std::nullopt;
      work -= cost;
      to.edges.insert(to.edges.end(), from.edges.begin(), from.edges.end());
      to.calls.insert(to.calls.end(), from.calls.begin(), from.calls.end());
      to.accepts = to.accepts || from.accepts;
    }
  }
  return out;
}

}  // namespace

std::optional<StateMachine> WithoutSilentSteps(const StateMachine& machine, size_t& work) {
  Subsets subsets(machine, work / 4);
  auto small = subsets.Build();
  work -= std::min(work, subsets.work());
  return small ? std::move(small) : Flattened(machine, work);
}

}  // namespace weft::grammar
