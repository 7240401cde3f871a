// The tree of a chat template. Built once by the parser, then read by any number of evaluations at
// once.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace weft::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;

// Arguments of a call, a filter or a test.
struct Arguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr spread;        // *expression
  ExpressionPtr named_spread;  // **expression
};

struct Expression {
  enum class Kind {
    kLiteral,
    kName,
    kArray,      // operands
    kTuple,      // operands
    kObject,     // operands: key, value, key, value, ...
    kAttribute,  // operands[0] . text
    kIndex,      // operands[0] [ operands[1] ]
    kSlice,   // operands[0] [ operands[1] : operands[2] : operands[3] ], each of the three may be
              // The value null.
    kCall,    // operands[0] ( arguments )
    kFilter,  // operands[0] | text ( arguments )
    kTest,    // operands[0] is text ( arguments )
    kNot,
    kNegative,
    kPositive,
    kBinary,         // operands[0] text operands[1]: + - * / // % ** and or
    kConcatenation,  // operands[0] ~ operands[1] ~ ...
    kComparison,     // operands[0] comparators[0] operands[1] comparators[1] operands[2] ...
    kConditional     // operands[0] if operands[1] else operands[2], which may be null
  };
  Kind kind = Kind::kLiteral;
  uint32_t line = 1;
  int depth = 1;  // of this subtree
  std::string text;
  Value literal;
  std::vector<ExpressionPtr> operands;
  std::vector<std::string> comparators;
  Arguments arguments;
};

struct Statement;
using Block = std::vector<std::unique_ptr<const Statement>>;

// Where a value goes: a name, or several that take the parts of a row, which may be rows again.
struct Target {
  std::string name;
  std::vector<Target> parts;  // in place of a name
};

struct Parameter {
  std::string name;
  ExpressionPtr fallback;  // may be null
};

struct Statement {
  enum class Kind {
    kText,      // text
    kPrint,     // value
    kIf,        // branches, body is the else part
    kFor,       // for target in value if condition: body, otherwise
    kSet,       // target = value
    kSetBlock,  // target = body through filters
    kMacro,     // text ( parameters ): body
    kCall,      // call (parameters) value: body
    kFilter,    // body through filters
    kWith,      // assignments, body
    kDo,        // value
    kBreak,
    kContinue,
    kBlock  // body in a scope of its own: {% generation %}
  };
  struct Branch {
    ExpressionPtr condition;
    Block body;
  };
  struct Filter {
    std::string name;
    Arguments arguments;
  };
  struct Assignment {
    Target target;
    ExpressionPtr value;
  };

  Kind kind = Kind::kText;
  uint32_t line = 1;
  std::string text;
  ExpressionPtr value;
  ExpressionPtr condition;
  Target target;
  std::string target_attribute;  // {% set target.target_attribute = value %}
  bool is_recursive = false;     // of a loop
  std::vector<Branch> branches;
  std::vector<Parameter> parameters;
  std::vector<Filter> filters;
  std::vector<Assignment> assignments;
  Block body;
  Block otherwise;
  // Of macros and call blocks: whether the body speaks of varargs and kwargs.
  bool takes_varargs = false;
  bool takes_kwargs = false;
};

}  // namespace weft::jinja
