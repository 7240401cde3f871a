// Runs the tree of a chat template. Everything a template can reach is in this class and in the
// tables of library.h: values, filters, tests, methods and four functions. Nothing of the host is.
// Work, output, values and nesting are bounded.
#pragma once

#include <array>
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

// The arguments of a call in the order of its parameters.
class Given {
 public:
  static constexpr size_t kMaxParameters = 6;

  explicit Given(const CallArguments& all) : all_(&all) {}
  // nullptr for a parameter that was not given.
  const Value* operator[](size_t parameter) const { return values_[parameter]; }
  void Set(size_t parameter, const Value* value) { values_[parameter] = value; }
  const CallArguments& all() const { return *all_; }

 private:
  std::array<const Value*, kMaxParameters> values_{};
  const CallArguments* all_;
};

// A filter, test or method. `parameters`: their names in order, "!" before one that must be given,
// "/" first where names may not be used in a call; "*" for one that reads its arguments itself.
template <typename Run>
struct Named {
  std::string_view name;
  std::string_view parameters;
  Run run;
};

using FilterEntry = Named<Result<Value> (*)(Evaluator&, const Value& operand, const Given&)>;
using TestEntry = Named<Result<bool> (*)(Evaluator&, const Value& operand, const Given&)>;
using MethodEntry = Named<Result<Value> (*)(Evaluator&, const Value& self, const Given&)>;

// Errors: kInvalidData for an argument too many, an unknown name or one that is missing.
Result<Given> BindArguments(std::string_view name, std::string_view parameters,
                            const CallArguments& arguments);

// The names that a template can use, by lookup: nullptr for an unknown one. An evaluator is given
// them (library.h has those of chat templates), since each of these functions needs an evaluator.
struct NameLookup {
  const FilterEntry* (*find_filter)(std::string_view name) = nullptr;
  const TestEntry* (*find_test)(std::string_view name) = nullptr;
  const MethodEntry* (*find_method)(const Value& self, std::string_view name) = nullptr;
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
  Result<Text> Run(const Block& block);

  // ---- for filters, tests, methods and functions ----

  // Counts work. Errors when the limit is reached.
  Status Charge(uint64_t steps);
  Status ChargeFor(const Value& value);  // work in proportion to its size
  Result<Value> MakeString(Text text);
  Result<Value> MakeString(std::string text) { return MakeString(Text(std::move(text))); }
  Result<Value> MakeArray(std::vector<Value> items, ArrayData::Form form = ArrayData::Form::kList);
  Result<Value> MakeObject(std::shared_ptr<ObjectData> object, bool is_namespace = false);
  // Containers that change after they were made can hold themselves; they are emptied at the end.
  void NoteChanged(const Value& container) { changed_.push_back(container); }
  // Python's == and its order: -1, 0, 1, or kUnordered.
  Result<bool> Same(const Value& a, const Value& b);
  Result<int> Order(const Value& a, const Value& b);
  Result<Value> Call(const Value& function, const CallArguments& arguments);
  Result<Value> Filter(const std::string& name, const Value& operand,
                       const CallArguments& arguments);
  Result<bool> Test(const std::string& name, const Value& operand, const CallArguments& arguments);
  // Gives operand.name: what Python calls an attribute, else the field, else undefined.
  Result<Value> Attribute(const Value& operand, const std::string& name);
  // Gives operand[index]: the item, else the attribute.
  Result<Value> Index(const Value& operand, const Value& index);
  // What Python calls an attribute: a method, a field of a namespace or loop.
  Result<std::optional<Value>> AttributeAlone(const Value& operand, const std::string& name);
  const std::optional<int64_t>& local_now_s() const { return local_now_s_; }

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  // Statements (eval.cc).
  Result<Flow> Execute(const Block& block);
  Result<Flow> ExecuteOne(const Statement& statement);
  Result<Flow> ExecuteIf(const Statement& statement);
  Result<Flow> ExecuteFor(const Statement& statement);
  // Over `iterable`, at this depth of recursion.
  Result<Flow> RunLoop(const Statement& statement, const std::shared_ptr<Scope>& scope,
                       const Value& iterable, int depth);
  struct LoopState;
  Value MakeLoop(const Statement& statement, const std::shared_ptr<Scope>& scope,
                 const std::shared_ptr<LoopState>& state);
  Status ExecuteWith(const Statement& statement);
  Status ExecuteSet(const Statement& statement);
  Status ExecuteMacro(const Statement& statement);
  Status ExecuteCall(const Statement& statement);
  Result<std::vector<Value>> ItemsOf(const Statement& loop, const Value& iterable);
  Status Bind(const Target& target, Value value);
  // The block's output through the statement's filters, as one string.
  Result<Value> Capture(const Block& block, const std::vector<Statement::Filter>& filters);
  Value MakeMacro(const Statement& statement, std::string name);
  Result<Value> CallMacro(const Statement& macro, const std::string& name,
                          const std::shared_ptr<Scope>& scope, const CallArguments& arguments);
  Status BindParameters(const Statement& macro, const std::string& name,
                        const CallArguments& arguments);
  Status Print(const Text& text);

  // Expressions (eval_expression.cc).
  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateInner(const Expression& expression);
  Result<Value> EvaluateObject(const Expression& expression);
  Result<Value> EvaluateSlice(const Expression& expression);
  Result<Value> EvaluateCall(const Expression& expression, const Value* caller);
  Result<Value> CallWith(const Expression& expression, const Value& function, const Value* caller);
  Result<Value> RunMethod(const MethodEntry& method, const Value& self,
                          const CallArguments& arguments);
  Result<Value> EvaluateBinary(const Expression& expression);
  Result<Value> EvaluateComparison(const Expression& expression);
  Result<Value> EvaluateConcatenation(const Expression& expression);
  Result<Value> EvaluateSign(const Expression& expression);
  Result<CallArguments> EvaluateArguments(const Arguments& arguments);

  const NameLookup names_;
  const TemplateLimits limits_;
  std::optional<int64_t> local_now_s_;
  uint64_t steps_left_;
  int depth_ = 0;
  std::shared_ptr<Scope> scope_;
  Text* out_ = nullptr;
  std::vector<Value> changed_;
  std::vector<std::shared_ptr<Scope>>
      captured_scopes_;  // macros hold them, and they hold the macros
};

// The items to loop over: of an array, the characters of a string, the keys of an object; nothing
// for undefined. An iterator has none afterwards.
Result<std::vector<Value>> IterableItems(Evaluator& evaluator, const Value& value);

// Arithmetic and concatenation (operators.cc). Errors: kInvalidData.
Result<Value> BinaryOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right);
// ==, <, in, ...
Result<bool> CompareOperation(Evaluator& evaluator, const std::string& symbol, const Value& left,
                              const Value& right);

}  // namespace weft::jinja
