// Rules of a grammar as expressions over bytes: what every front end (JSON Schema, GBNF, regular
// expressions, choices) builds and automaton.h compiles.
//
//   Rules rules;
//   const ExprId digit = rules.Set({{'0', '9'}});
//   const RuleId root = rules.Declare("root");
//   rules.Define(root, rules.Sequence({rules.Bytes("v"), rules.Repeat(digit, 1, kUnbounded)}));
//
// Expressions are numbered and may be used in several places.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/code_points.h"

namespace weft::grammar {

using ExprId = uint32_t;
using RuleId = uint32_t;

inline constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
// Limits of a front end: what it may ask of Repeat, and how many rules and expressions it may make.
// Each front end refuses what goes beyond in its own words.
inline constexpr uint32_t kMaxRepeat = 16'384;
inline constexpr size_t kMaxRules = 20'000;
inline constexpr size_t kMaxExpressions = 400'000;

struct Expr {
  enum class Kind { kNever, kBytes, kSet, kSequence, kChoice, kRepeat, kCall };
  Kind kind = Kind::kNever;
  std::string bytes;             // kBytes; may be empty
  CodePointSet set;              // kSet: one character of it
  std::vector<ExprId> parts;     // kSequence, kChoice; kRepeat: one
  uint32_t least = 0, most = 0;  // kRepeat
  RuleId rule = 0;               // kCall
  uint32_t state_count = 0;      // about how many states it takes; saturating
};

class Rules {
 public:
  ExprId Never() { return Add({}); }  // matches nothing at all
  ExprId Bytes(std::string_view bytes);
  ExprId Empty() { return Bytes(""); }
  ExprId Set(CodePointSet set);
  ExprId Sequence(std::vector<ExprId> parts);
  ExprId Choice(std::vector<ExprId> parts);
  ExprId Optional(ExprId part) { return Choice({Empty(), part}); }
  // REQUIRES: least <= most; both at most kMaxRepeat, or most kUnbounded.
  ExprId Repeat(ExprId part, uint32_t least, uint32_t most);
  ExprId Call(RuleId rule);

  // `shared`: its states stay one set, so that masks of them are found again wherever it is called;
  // small rules without it become part of their callers.
  RuleId Declare(std::string name, bool shared = false);
  void Define(RuleId rule, ExprId body) { rules_[rule].body = body; }
  // A shared rule of this body.
  ExprId Share(std::string name, ExprId body);

  bool IsFull() const { return rules_.size() > kMaxRules || expressions_.size() > kMaxExpressions; }

  struct Rule {
    std::string name;
    bool shared = false;
    std::optional<ExprId> body;  // nullopt: not defined
  };
  const std::vector<Rule>& rules() const { return rules_; }
  const Expr& expression(ExprId id) const { return expressions_[id]; }

 private:
  // `states`: of its own, beside those of its parts.
  ExprId Combine(Expr::Kind kind, uint64_t states, std::vector<ExprId> parts);
  ExprId Add(Expr expression);

  std::vector<Rule> rules_;
  std::vector<Expr> expressions_;
};

}  // namespace weft::grammar
