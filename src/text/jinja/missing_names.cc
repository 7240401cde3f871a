#include "text/jinja/missing_names.h"

#include <algorithm>
#include <set>

#include "text/jinja/library.h"

namespace weft::jinja {
namespace {

using ExpressionKind = Expression::Kind;

class NameReader {
 public:
  std::vector<std::string> Run(const Block& block) {
    Visit(block);
    std::vector<std::string> sentences;
    for (const Call& call : calls_) {
      // A template may well ask first whether there is such a function.
      if (defined_.contains(call.name) || tested_.contains(call.name)) continue;
      Add("function", call.name, call.line);
    }
    std::ranges::stable_sort(found_, {}, &Found::line);
    for (const Found& found : found_) {
      std::string sentence = "Line " + std::to_string(found.line) +
                             " of the chat template uses the " + found.kind + " '" + found.name +
                             "', which weft does not have.";
      if (std::ranges::find(sentences, sentence) == sentences.end()) {
        sentences.push_back(std::move(sentence));
      }
    }
    return sentences;
  }

 private:
  struct Found {
    std::string kind, name;
    uint32_t line;
  };
  struct Call {
    std::string name;
    uint32_t line;
  };

  void Add(std::string kind, std::string name, uint32_t line) {
    found_.push_back({std::move(kind), std::move(name), line});
  }

  void Define(const Target& target) {
    if (!target.name.empty()) defined_.insert(target.name);
    for (const Target& part : target.parts) Define(part);
  }

  void CheckFilter(const std::string& name, const Arguments& arguments, uint32_t line) {
    if (FindFilter(name) == nullptr) Add("filter", name, line);
    // map('upper'), select('odd'), selectattr('x', 'equalto', 1)
    const size_t at = name == "selectattr" || name == "rejectattr" ? 1 : 0;
    const bool names_test = at == 1 || name == "select" || name == "reject";
    if (!names_test && name != "map") return;
    if (arguments.positional.size() <= at) return;
    const Expression& inner = *arguments.positional[at];
    if (inner.kind != ExpressionKind::kLiteral || !inner.literal.IsString()) return;
    const std::string& inner_name = inner.literal.string();
    if (names_test && FindTest(inner_name) == nullptr) Add("test", inner_name, line);
    if (!names_test && FindFilter(inner_name) == nullptr) Add("filter", inner_name, line);
  }

  void Visit(const Arguments& arguments) {
    for (const ExpressionPtr& argument : arguments.positional) Visit(argument);
    for (const auto& [name, argument] : arguments.named) Visit(argument);
    Visit(arguments.spread);
    Visit(arguments.named_spread);
  }

  void Visit(const ExpressionPtr& expression) {
    if (!expression) return;
    for (const ExpressionPtr& operand : expression->operands) Visit(operand);
    Visit(expression->arguments);
    if (expression->kind == ExpressionKind::kFilter) {
      CheckFilter(expression->text, expression->arguments, expression->line);
    } else if (expression->kind == ExpressionKind::kTest) {
      if (FindTest(expression->text) == nullptr) Add("test", expression->text, expression->line);
      const Expression& tested = *expression->operands[0];
      if (tested.kind == ExpressionKind::kName) tested_.insert(tested.text);
    } else if (expression->kind == ExpressionKind::kCall) {
      VisitCall(*expression);
    }
  }

  void VisitCall(const Expression& call) {
    const Expression& callee = *call.operands[0];
    if (callee.kind == ExpressionKind::kName && !IsFunctionName(callee.text)) {
      calls_.push_back({callee.text, call.line});
    }
    // Fields of the template's own namespaces can be macros, so only Python's own names are known
    // to be missing.
    static constexpr std::string_view kPythonOnly[] = {"encode",           "maketrans", "translate",
                                                       "fromkeys",         "popitem",   "sort",
                                                       "as_integer_ratio", "hex",       "to_bytes"};
    if (callee.kind == ExpressionKind::kAttribute &&
        std::ranges::find(kPythonOnly, callee.text) != std::end(kPythonOnly)) {
      Add("method", callee.text, call.line);
    }
  }

  void Visit(const Block& block) {
    for (const auto& statement : block) Visit(*statement);
  }

  void Visit(const Statement& statement) {
    Visit(statement.value);
    Visit(statement.condition);
    Define(statement.target);
    if (statement.kind == Statement::Kind::kMacro) defined_.insert(statement.text);
    if (statement.kind == Statement::Kind::kFor) defined_.insert("loop");
    if (statement.kind == Statement::Kind::kMacro || statement.kind == Statement::Kind::kCall) {
      defined_.insert("caller");
    }
    for (const Parameter& parameter : statement.parameters) {
      defined_.insert(parameter.name);
      Visit(parameter.fallback);
    }
    for (const Statement::Branch& branch : statement.branches) {
      Visit(branch.condition);
      Visit(branch.body);
    }
    for (const Statement::Filter& filter : statement.filters) {
      CheckFilter(filter.name, filter.arguments, statement.line);
      Visit(filter.arguments);
    }
    for (const Statement::Assignment& assignment : statement.assignments) {
      Define(assignment.target);
      Visit(assignment.value);
    }
    Visit(statement.body);
    Visit(statement.otherwise);
  }

  std::vector<Found> found_;
  std::vector<Call> calls_;
  std::set<std::string> defined_, tested_;
};

}  // namespace

std::vector<std::string> FindMissingNames(const Block& block) {
  return NameReader().Run(block);
}

}  // namespace weft::jinja
