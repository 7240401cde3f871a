#include "grammar/rules.h"

#include <algorithm>

#include "base/check.h"

namespace weft::grammar {
namespace {

// Of the bytes of a class of characters.
constexpr uint64_t kStatesOfSet = 8;
// Copies of a repeated expression with more states than this become calls of one rule.
constexpr uint64_t kMostCopiedStates = 4096;

uint32_t Saturated(uint64_t count) {
  return static_cast<uint32_t>(std::min<uint64_t>(count, kUnbounded));
}

}  // namespace

ExprId Rules::Add(Expr expression) {
  expressions_.push_back(std::move(expression));
  return static_cast<ExprId>(expressions_.size() - 1);
}

ExprId Rules::Bytes(std::string_view bytes) {
  Expr expression;
  expression.kind = Expr::Kind::kBytes;
  expression.bytes = bytes;
  expression.state_count = Saturated(bytes.size());
  return Add(std::move(expression));
}

ExprId Rules::Set(CodePointSet set) {
  Expr expression;
  expression.kind = Expr::Kind::kSet;
  const bool is_ascii = set.empty() || set.ranges().back().last < 0x80;
  expression.state_count = is_ascii ? 1 : kStatesOfSet;
  expression.set = std::move(set);
  return Add(std::move(expression));
}

ExprId Rules::Combine(Expr::Kind kind, uint64_t states, std::vector<ExprId> parts) {
  if (parts.size() == 1) return parts[0];
  Expr expression;
  expression.kind = kind;
  for (const ExprId part : parts) states += expressions_[part].state_count;
  expression.state_count = Saturated(states);
  expression.parts = std::move(parts);
  return Add(std::move(expression));
}

ExprId Rules::Sequence(std::vector<ExprId> parts) {
  return Combine(Expr::Kind::kSequence, 0, std::move(parts));
}

ExprId Rules::Choice(std::vector<ExprId> parts) {
  return Combine(Expr::Kind::kChoice, 1, std::move(parts));
}

ExprId Rules::Repeat(ExprId part, uint32_t least, uint32_t most) {
  CHECK(least <= most && least <= kMaxRepeat && (most <= kMaxRepeat || most == kUnbounded));
  const uint64_t copies = most == kUnbounded ? least + uint64_t{1} : most;
  if (copies > 1 && copies * expressions_[part].state_count > kMostCopiedStates)
    part = Share("", part);
  Expr expression;
  expression.kind = Expr::Kind::kRepeat;
  expression.state_count = Saturated(copies * (expressions_[part].state_count + uint64_t{1}));
  expression.parts = {part};
  expression.least = least;
  expression.most = most;
  return Add(std::move(expression));
}

ExprId Rules::Call(RuleId rule) {
  Expr expression;
  expression.kind = Expr::Kind::kCall;
  expression.rule = rule;
  expression.state_count = 1;
  return Add(std::move(expression));
}

RuleId Rules::Declare(std::string name, bool shared) {
  rules_.push_back({std::move(name), shared, std::nullopt});
  return static_cast<RuleId>(rules_.size() - 1);
}

ExprId Rules::Share(std::string name, ExprId body) {
  const RuleId rule = Declare(std::move(name), true);
  Define(rule, body);
  return Call(rule);
}

}  // namespace weft::grammar
