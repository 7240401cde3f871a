// Runs the tree of a chat template. Everything a template can reach is in this class and in the
// tables of library.h: values, filters, tests, methods and four functions; nothing of the
// host. Work, output, values and nesting are bounded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/limits.h"

namespace weft::jinja {

// Variables of one block; the parent's are visible through it.
class Scope {
 public:
  explicit Scope(std::shared_ptr<Scope> parent) : parent_(std::move(parent)) {}
  const Value* Find(std::string_view name) const;
  void Set(std::string_view name, Value value);
  size_t variable_count() const { return variables_.size(); }
  void Clear() { variables_.clear(); }

 private:
  std::shared_ptr<Scope> parent_;
  std::vector<std::pair<std::string, Value>> variables_;
};

class Evaluator;

using FilterFunction = Result<Value> (*)(Evaluator&, const Value& operand, const CallArguments&);
using TestFunction = Result<bool> (*)(Evaluator&, const Value& operand, const CallArguments&);
using MethodFunction = Result<Value> (*)(Evaluator&, const Value& self, const CallArguments&);

// The names that a template can use, by lookup: nullptr for an unknown one. An evaluator is given
// them (library.h has those of chat templates), since each of these functions needs an evaluator.
struct NameLookup {
  FilterFunction (*find_filter)(std::string_view name) = nullptr;
  TestFunction (*find_test)(std::string_view name) = nullptr;
  MethodFunction (*find_method)(const Value& self, std::string_view name) = nullptr;
  void (*add_functions)(Evaluator& evaluator) = nullptr;
};

class Evaluator {
 public:
  Evaluator(const NameLookup& names, const TemplateLimits& limits,
            std::optional<int64_t> local_now_s);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;

  void SetGlobal(std::string_view name, Value value) { scope_->Set(name, std::move(value)); }
  // Errors: kInvalidArgument from raise_exception; kInvalidData for everything else that goes
  // wrong.
  Result<std::string> Run(const Block& block);

  // ---- for filters, tests, methods and functions ----

  // Counts work. Errors when the limit is reached.
  Status Charge(uint64_t steps);
  Status ChargeFor(const Value& value);  // work in proportion to its size
  Result<Value> MakeString(std::string text);
  Result<Value> MakeArray(std::vector<Value> items);
  Result<Value> MakeObject(std::shared_ptr<ObjectData> object, bool is_namespace = false);
  // Containers that change after they were made can hold themselves; they are emptied at the end.
  void NoteChanged(const Value& container) { changed_.push_back(container); }
  // Python's ==.
  Result<bool> Same(const Value& a, const Value& b);
  Result<Value> Call(const Value& function, const CallArguments& arguments);
  Result<Value> Filter(const std::string& name, const Value& operand,
                       const CallArguments& arguments);
  Result<bool> Test(const std::string& name, const Value& operand, const CallArguments& arguments);
  // Gives operand.name, undefined when there is none.
  Result<Value> Attribute(const Value& operand, const std::string& name);
  Result<Value> Index(const Value& operand, const Value& index);
  const std::optional<int64_t>& local_now_s() const { return local_now_s_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // Statements (eval.cc).
  Result<Flow> Execute(const Block& block);
  Result<Flow> ExecuteOne(const Statement& statement);
  Result<Flow> ExecuteIf(const Statement& statement);
  Result<Flow> ExecuteFor(const Statement& statement);
  Status ExecuteWith(const Statement& statement);
  Status ExecuteSet(const Statement& statement);
  Status ExecuteMacro(const Statement& statement);
  Status ExecuteCall(const Statement& statement);
  Result<std::vector<Value>> ItemsOf(const Statement& loop);
  Status Bind(const std::vector<std::string>& targets, Value value);
  // The block's output through the statement's filters, as one string.
  Result<Value> Capture(const Block& block, const std::vector<Statement::Filter>& filters);
  Value MakeMacro(const Statement& statement, std::string name);
  Result<Value> CallMacro(const Statement& macro, const std::string& name,
                          const std::shared_ptr<Scope>& scope, const CallArguments& arguments);
  Status BindParameters(const Statement& macro, const std::string& name,
                        const CallArguments& arguments);
  Status Print(std::string_view text);

  // Expressions (eval_expression.cc).
  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateInner(const Expression& expression);
  Result<Value> EvaluateObject(const Expression& expression);
  Result<Value> EvaluateSlice(const Expression& expression);
  Result<Value> EvaluateCall(const Expression& expression, const Value* caller);
  Result<Value> EvaluateBinary(const Expression& expression);
  Result<Value> EvaluateComparison(const Expression& expression);
  Result<Value> EvaluateSign(const Expression& expression);
  Result<CallArguments> EvaluateArguments(const Arguments& arguments);

  const NameLookup names_;
  const TemplateLimits limits_;
  std::optional<int64_t> local_now_s_;
  uint64_t steps_left_;
  int depth_ = 0;
  std::shared_ptr<Scope> scope_;
  std::string* out_ = nullptr;
  std::vector<Value> changed_;
  std::vector<std::shared_ptr<Scope>>
      captured_scopes_;  // macros hold them, and they hold the macros
};

// The items to loop over: of an array, the characters of a string, the keys of an object; nothing
// for undefined.
Result<std::vector<Value>> IterableItems(Evaluator& evaluator, const Value& value);

// Arithmetic and concatenation (operators.cc). Errors: kInvalidData.
Result<Value> BinaryOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right);
// ==, <, in, ...
Result<bool> CompareOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right);

}  // namespace weft::jinja
