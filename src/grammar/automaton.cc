#include "grammar/automaton.h"

#include <algorithm>
#include <queue>
#include <string>
#include <utility>

#include "base/sentence.h"
#include "grammar/state_machine.h"

namespace weft::grammar {
namespace {

constexpr uint32_t kNever = kUnbounded;
// A rule with fewer states becomes part of its callers, unless it is shared or calls itself.
constexpr uint32_t kMostInlineStates = 64;
// For taking silent steps out of all rules (state_machine.h): a second or two.
constexpr size_t kMostWork = 40'000'000;
// Of one rule, before silent steps are gone.
constexpr size_t kMaxRawStates = 2 * kMaxStates;

Error TooLarge() {
  return Error(ErrorCode::kLimitExceeded,
               Sentence("The grammar has more than ", kMaxStates,
                        " states. Long lists, long repeats and many properties make it large."));
}

std::string Quoted(const Rules::Rule& rule) {
  return rule.name.empty() ? "A rule" : "'" + rule.name + "'";
}

// Which rules call which, and which are small enough to stand in their callers.
class RuleGraph {
 public:
  explicit RuleGraph(const Rules& rules) : rules_(rules), sizes_(rules.rules().size(), 0) {}

  // Rules that the root comes to. Errors: one of them is not defined.
  Result<std::vector<RuleId>> Reachable(RuleId root) const {
    std::vector<bool> seen(rules_.rules().size(), false);
    std::vector<RuleId> found = {root};
    seen[root] = true;
    for (size_t i = 0; i < found.size(); ++i) {
      const Rules::Rule& rule = rules_.rules()[found[i]];
      if (!rule.body)
        return Error(ErrorCode::kInvalidArgument,
                     "The rule " + Quoted(rule) + " is used but not defined.");
      for (const RuleId callee : CalleesOf(*rule.body)) {
        if (!seen[callee]) {
          seen[callee] = true;
          found.push_back(callee);
        }
      }
    }
    return found;
  }

  // In turns: a rule is inline once all that it calls are and it stays small with them. Whoever
  // calls itself, over others or not, never is.
  std::vector<bool> InlineRules(const std::vector<RuleId>& rules) {
    std::vector<bool> is_inline(rules_.rules().size(), false);
    for (bool changed = true; changed;) {
      changed = false;
      for (const RuleId id : rules) {
        const Rules::Rule& rule = rules_.rules()[id];
        if (is_inline[id] || rule.shared) continue;
        uint64_t states = rules_.expression(*rule.body).state_count + 1;
        bool is_ready = states <= kMostInlineStates;
        if (!is_ready) continue;
        for (const RuleId callee : CalleesOf(*rule.body)) {
          const bool stays = rules_.rules()[callee].shared;
          is_ready = is_ready && (stays || is_inline[callee]);
          states += stays ? 0 : sizes_[callee];
        }
        if (!is_ready || states > kMostInlineStates) continue;
        is_inline[id] = changed = true;
        sizes_[id] = static_cast<uint32_t>(states);
      }
    }
    return is_inline;
  }

 private:
  // With those that are called twice named twice.
  std::vector<RuleId> CalleesOf(ExprId body) const {
    std::vector<RuleId> callees;
    std::vector<ExprId> open = {body};
    while (!open.empty()) {
      const Expr& expression = rules_.expression(open.back());
      open.pop_back();
      if (expression.kind == Expr::Kind::kCall) callees.push_back(expression.rule);
      open.insert(open.end(), expression.parts.begin(), expression.parts.end());
    }
    return callees;
  }

  const Rules& rules_;
  std::vector<uint32_t> sizes_;
};

// Puts the expression of a rule together, with silent steps.
class MachineBuilder {
 public:
  MachineBuilder(const Rules& rules, const std::vector<bool>& is_inline)
      : rules_(rules), is_inline_(is_inline) {}

  Result<StateMachine> Build(ExprId body) {
    machine_ = {};
    const uint32_t start = machine_.AddState();
    const uint32_t end = Append(body, start);
    if (machine_.states.size() > kMaxRawStates) return TooLarge();
    machine_.states[end].accepts = true;
    return std::move(machine_);
  }

 private:
  uint32_t New() { return machine_.AddState(); }
  void Skip(uint32_t from, uint32_t to) { machine_.states[from].silent.push_back(to); }

  // Texts of the expression lead from `from` to the state that is returned, which nothing leads
  // away from yet.
  uint32_t Append(ExprId id, uint32_t from) {
    if (machine_.states.size() > kMaxRawStates) return from;  // refused at the end
    const Expr& expression = rules_.expression(id);
    switch (expression.kind) {
      case Expr::Kind::kNever:
        return New();
      case Expr::Kind::kBytes:
        return AppendBytes(expression.bytes, from);
      case Expr::Kind::kSet:
        return AppendSet(expression.set, from);
      case Expr::Kind::kSequence:
        for (const ExprId part : expression.parts) from = Append(part, from);
        return from;
      case Expr::Kind::kChoice:
        return AppendChoice(expression, from);
      case Expr::Kind::kRepeat:
        return AppendRepeat(expression, from);
      case Expr::Kind::kCall:
        break;
    }
    if (is_inline_[expression.rule]) {
      // Of its own, since it may loop.
      const uint32_t begin = New();
      Skip(from, begin);
      return Append(*rules_.rules()[expression.rule].body, begin);
    }
    const uint32_t back = New();
    machine_.states[from].calls.push_back({expression.rule, back});
    return back;
  }

  uint32_t AppendBytes(const std::string& bytes, uint32_t from) {
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      const uint32_t next = New();
      machine_.states[from].edges.push_back({byte, byte, next});
      from = next;
    }
    return from;
  }

  // Continuation bytes that may be any lead to `end` over states that all sequences share.
  uint32_t AppendSet(const CodePointSet& set, uint32_t from) {
    constexpr ByteRange kAny{0x80, 0xBF};
    const uint32_t end = New();
    uint32_t tails[4] = {end, 0, 0, 0};  // so many bytes in front of the end; 0: not made yet
    const auto tail = [&](size_t count) {
      for (size_t i = 1; i <= count; ++i) {
        if (tails[i] != 0) continue;
        tails[i] = New();
        machine_.states[tails[i]].edges.push_back({kAny.first, kAny.last, tails[i - 1]});
      }
      return tails[count];
    };
    for (const ByteSequence& sequence : Utf8Sequences(set)) {
      size_t free = 0;  // bytes at the end that may be any
      while (free + 1 < sequence.size() && sequence[sequence.size() - 1 - free] == kAny) ++free;
      uint32_t state = from;
      for (size_t i = 0; i + free < sequence.size(); ++i) {
        const uint32_t next = i + free + 1 == sequence.size() ? tail(free) : New();
        machine_.states[state].edges.push_back({sequence[i].first, sequence[i].last, next});
        state = next;
      }
    }
    return end;
  }

  uint32_t AppendChoice(const Expr& expression, uint32_t from) {
    const uint32_t end = New();
    for (const ExprId part : expression.parts) {
      const uint32_t begin = New();
      Skip(from, begin);
      Skip(Append(part, begin), end);
    }
    return end;
  }

  uint32_t AppendRepeat(const Expr& expression, uint32_t from) {
    const ExprId part = expression.parts[0];
    for (uint32_t i = 0; i < expression.least; ++i) {
      if (machine_.states.size() > kMaxRawStates) return from;
      from = Append(part, from);
    }
    const uint32_t end = New();
    if (expression.most == kUnbounded) {
      const uint32_t loop = New();
      Skip(from, loop);
      Skip(Append(part, loop), loop);
      Skip(loop, end);
      return end;
    }
    for (uint32_t i = expression.least; i < expression.most; ++i) {
      if (machine_.states.size() > kMaxRawStates) return from;
      const uint32_t begin = New();
      Skip(from, begin);
      Skip(from, end);
      from = Append(part, begin);
    }
    Skip(from, end);
    return end;
  }

  const Rules& rules_;
  const std::vector<bool>& is_inline_;
  StateMachine machine_;
};

}  // namespace

class AutomatonBuilder {
 public:
  AutomatonBuilder(const Rules& rules, RuleId root) : rules_(rules), root_(root) {}

  Result<std::shared_ptr<const Automaton>> Build() {
    RuleGraph graph(rules_);
    ASSIGN_OR_RETURN(const std::vector<RuleId> reachable, graph.Reachable(root_));
    std::vector<bool> is_inline = graph.InlineRules(reachable);
    is_inline[root_] = false;
    out_->rules_.resize(rules_.rules().size());
    MachineBuilder machines(rules_, is_inline);
    for (const RuleId id : reachable) {
      if (is_inline[id]) continue;
      ASSIGN_OR_RETURN(const StateMachine raw, machines.Build(*rules_.rules()[id].body));
      auto machine = WithoutSilentSteps(raw, work_);
      if (!machine) return TooLarge();
      TRY(Add(id, std::move(*machine)));
      kept_.push_back(id);
    }
    FindLeastBytes();
    if (least(root_) == kNever) return NoText();
    TRY(RefuseLeftRecursion());
    Store();
    return std::shared_ptr<const Automaton>(std::move(out_));
  }

 private:
  uint32_t& least(RuleId rule) { return out_->rules_[rule].least_bytes; }

  // The states of a rule, behind those of the others.
  Status Add(RuleId rule, StateMachine machine) {
    const auto base = static_cast<uint32_t>(states_.size());
    if (states_.size() + machine.states.size() > kMaxStates) return TooLarge();
    out_->rules_[rule].start = base;
    for (StateMachine::State& state : machine.states) {
      for (Automaton::Edge& edge : state.edges) edge.target += base;
      for (Automaton::Call& call : state.calls) call.back += base;
      states_.push_back(std::move(state));
      rule_of_.push_back(rule);
    }
    return OkStatus();
  }

  // Knuth's generalisation of Dijkstra's algorithm to grammars: states by rising distance to the
  // end of their rule; where it is a rule's first one, the rule's calls have a length.
  void FindLeastBytes() {
    to_end_.assign(states_.size(), kNever);
    for (const RuleId id : kept_) least(id) = kNever;
    struct Caller {
      uint32_t state = 0, back = 0;
    };
    std::vector<std::vector<uint32_t>> before(states_.size());  // by bytes
    std::vector<std::vector<Automaton::Call>> returns(states_.size());
    std::vector<std::vector<Caller>> callers(out_->rules_.size());
    using Entry = std::pair<uint32_t, uint32_t>;  // distance, state
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
    for (uint32_t state = 0; state < states_.size(); ++state) {
      for (const Automaton::Edge& edge : states_[state].edges) before[edge.target].push_back(state);
      for (const Automaton::Call& call : states_[state].calls) {
        returns[call.back].push_back({call.rule, state});  // `back` is the caller here
        callers[call.rule].push_back({state, call.back});
      }
      if (states_[state].accepts) open.emplace(0, state);
    }
    const auto relax = [&](uint64_t distance, uint32_t state) {
      if (to_end_[state] == kNever)
        open.emplace(static_cast<uint32_t>(std::min<uint64_t>(distance, kNever - 1)), state);
    };
    while (!open.empty()) {
      const auto [distance, state] = open.top();
      open.pop();
      if (to_end_[state] != kNever) continue;
      to_end_[state] = distance;
      for (const uint32_t from : before[state]) relax(distance + uint64_t{1}, from);
      for (const Automaton::Call& call : returns[state])
        if (least(call.rule) != kNever) relax(uint64_t{distance} + least(call.rule), call.back);
      const RuleId rule = rule_of_[state];
      if (out_->rules_[rule].start != state) continue;
      least(rule) = distance;
      for (const Caller& caller : callers[rule])
        if (to_end_[caller.back] != kNever)
          relax(uint64_t{distance} + to_end_[caller.back], caller.state);
    }
  }

  Error NoText() const {
    return Error(ErrorCode::kInvalidArgument,
                 Quoted(rules_.rules()[root_]) +
                     " has no text at all: what it consists of calls itself for ever, or excludes "
                     "itself.");
  }

  std::vector<uint32_t> SilentlyReached(uint32_t start) const {
    std::vector<uint32_t> found = {start};
    for (size_t i = 0; i < found.size(); ++i)
      for (const Automaton::Call& call : states_[found[i]].calls)
        if (out_->rules_[call.rule].nullable() &&
            std::ranges::find(found, call.back) == found.end())
          found.push_back(call.back);
    return found;
  }

  // Kahn's algorithm over "may call before it reads anything": what is left is a circle.
  Status RefuseLeftRecursion() const {
    std::vector<std::vector<RuleId>> first(out_->rules_.size());
    std::vector<size_t> callers(out_->rules_.size(), 0);
    for (const RuleId id : kept_) {
      for (const uint32_t state : SilentlyReached(out_->rules_[id].start)) {
        for (const Automaton::Call& call : states_[state].calls) {
          first[id].push_back(call.rule);
          ++callers[call.rule];
        }
      }
    }
    std::vector<RuleId> free;
    for (const RuleId id : kept_)
      if (callers[id] == 0) free.push_back(id);
    for (size_t i = 0; i < free.size(); ++i)
      for (const RuleId callee : first[free[i]])
        if (--callers[callee] == 0) free.push_back(callee);
    for (const RuleId id : kept_) {
      if (callers[id] == 0) continue;
      return Error(ErrorCode::kInvalidArgument,
                   Quoted(rules_.rules()[id]) +
                       " calls itself before it has read anything (left recursion), itself or over "
                       "another rule; write what repeats with * or +.");
    }
    return OkStatus();
  }

  // Without what leads nowhere.
  void Store() {
    const auto is_alive = [this](uint32_t state) { return to_end_[state] != kNever; };
    out_->states_.reserve(states_.size() + 1);
    for (uint32_t id = 0; id < states_.size(); ++id) {
      const StateMachine::State& from = states_[id];
      Automaton::State state;
      state.first_edge = static_cast<uint32_t>(out_->edges_.size());
      state.first_call = static_cast<uint32_t>(out_->calls_.size());
      std::ranges::copy_if(from.edges, std::back_inserter(out_->edges_),
                           [&](const Automaton::Edge& edge) { return is_alive(edge.target); });
      std::ranges::copy_if(from.calls, std::back_inserter(out_->calls_),
                           [&](const Automaton::Call& call) {
                             return is_alive(call.back) && least(call.rule) != kNever;
                           });
      const bool has_edges = out_->edges_.size() > state.first_edge;
      const bool has_calls = out_->calls_.size() > state.first_call;
      state.bytes_to_end = to_end_[id];
      state.accepts = from.accepts;
      state.is_plain = !from.accepts && !has_calls;
      state.is_end = from.accepts && !has_calls && !has_edges;
      out_->states_.push_back(state);
    }
    Automaton::State end;  // of the last one's edges and calls
    end.first_edge = static_cast<uint32_t>(out_->edges_.size());
    end.first_call = static_cast<uint32_t>(out_->calls_.size());
    out_->states_.push_back(end);
    out_->root_ = root_;
  }

  const Rules& rules_;
  const RuleId root_;
  size_t work_ = kMostWork;
  std::vector<RuleId> kept_;
  std::vector<StateMachine::State> states_;
  std::vector<RuleId> rule_of_;   // by state
  std::vector<uint32_t> to_end_;  // by state; kNever: no end can be reached
  std::unique_ptr<Automaton> out_ = std::make_unique<Automaton>();
};

Result<std::shared_ptr<const Automaton>> Automaton::Compile(const Rules& rules, RuleId root) {
  return AutomatonBuilder(rules, root).Build();
}

}  // namespace weft::grammar
