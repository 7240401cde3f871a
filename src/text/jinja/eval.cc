#include "text/jinja/eval.h"
#include "text/jinja/json.h"

#include "text/utf8.h"

namespace weft::jinja {
namespace {

using StatementKind = Statement::Kind;

// Work is counted, not timed, so that the same template is refused on every machine. A step is
// about a node visited; the default of ten million takes about a second. Work on long strings and
// arrays costs as many steps as it takes: without that, doubling a string 24 times in a loop would
// be 24 steps for 16 MiB of copying, and comparing two such strings one.

// Bytes that count as one step.
constexpr size_t kBytesPerStep = 16;

// Puts a value back when it leaves the block.
template <typename T>
class Restore {
 public:
  Restore(T& place, T value) : place_(place), saved_(std::exchange(place, std::move(value))) {}
  ~Restore() { place_ = std::move(saved_); }
  Restore(const Restore&) = delete;

 private:
  T& place_;
  T saved_;
};

Error AtLine(Error error, uint32_t line) {
  return std::move(error).Context("While running line " + std::to_string(line) +
                                  " of the chat template");
}

}  // namespace

const Value* Scope::Find(std::string_view name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent_.get()) {
    for (const auto& [key, value] : scope->variables_) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(std::string_view name, Value value) {
  for (auto& [key, held] : variables_) {
    if (key == name) {
      held = std::move(value);
      return;
    }
  }
  variables_.emplace_back(std::string(name), std::move(value));
}

Evaluator::Evaluator(const NameLookup& names, const TemplateLimits& limits,
                     std::optional<int64_t> local_now_s)
    : names_(names),
      limits_(limits),
      local_now_s_(local_now_s),
      steps_left_(limits.steps),
      scope_(std::make_shared<Scope>(nullptr)) {
  names_.add_functions(*this);
}

Evaluator::~Evaluator() {
  // Values that hold each other would never be freed.
  for (const auto& scope : captured_scopes_) scope->Clear();
  for (const Value& value : changed_) {
    if (value.IsArray()) {
      value.array()->items.clear();
    } else {
      value.object()->Clear();
    }
  }
}

Status Evaluator::Charge(uint64_t steps) {
  if (steps > steps_left_) {
    steps_left_ = 0;
    return Refuse("The chat template took more than " + std::to_string(limits_.steps) +
                  " steps; it may loop for ever.");
  }
  steps_left_ -= steps;
  return OkStatus();
}

Status Evaluator::ChargeFor(const Value& value) {
  if (value.IsString()) return Charge(1 + value.string().size() / kBytesPerStep);
  if (value.IsArray()) return Charge(1 + value.items().size());
  if (value.Is(Value::Kind::kObject)) return Charge(1 + value.object()->count());
  return Charge(1);
}

Result<Value> Evaluator::MakeString(std::string text) {
  if (text.size() > limits_.text_bytes) {
    return Refuse("The chat template made a string of " + std::to_string(text.size()) +
                  " bytes; the limit is " + std::to_string(limits_.text_bytes) + ".");
  }
  TRY(Charge(1 + text.size() / kBytesPerStep));
  return Value::String(std::move(text));
}

Result<Value> Evaluator::MakeArray(std::vector<Value> items) {
  TRY(Charge(1 + items.size()));
  auto array = std::make_shared<ArrayData>();
  for (const Value& item : items) array->depth = std::max(array->depth, item.depth() + 1);
  if (array->depth > kMaxValueDepth) {
    return Refuse("The chat template nests arrays more than " + std::to_string(kMaxValueDepth) +
                  " levels deep.");
  }
  array->items = std::move(items);
  return Value::Array(std::move(array));
}

Result<Value> Evaluator::MakeObject(std::shared_ptr<ObjectData> object, bool is_namespace) {
  TRY(Charge(1 + object->count()));
  if (object->depth > kMaxValueDepth) {
    return Refuse("The chat template nests objects more than " + std::to_string(kMaxValueDepth) +
                  " levels deep.");
  }
  if (!is_namespace) return Value::Object(std::move(object));
  Value value = Value::Namespace(std::move(object));
  NoteChanged(value);
  return value;
}

Result<bool> Evaluator::Same(const Value& a, const Value& b) {
  uint64_t work = 0;
  const bool same = Equal(a, b, work);
  TRY(Charge(work));
  if (work > kMaxEqualWork) return Refuse("The chat template compares values that are too large.");
  return same;
}

Result<std::string> Evaluator::Run(const Block& block) {
  std::string out;
  Restore<std::string*> restore(out_, &out);
  ASSIGN_OR_RETURN(const Flow flow, Execute(block));
  if (flow != Flow::kNormal) {
    return Refuse("The chat template has a break or continue outside of a loop.");
  }
  return out;
}

Status Evaluator::Print(std::string_view text) {
  TRY(Charge(1 + text.size() / kBytesPerStep));
  if (text.size() > limits_.text_bytes - std::min(out_->size(), limits_.text_bytes)) {
    return Refuse("The chat template wrote more than " + std::to_string(limits_.text_bytes) +
                  " bytes.");
  }
  *out_ += text;
  return OkStatus();
}

Result<Evaluator::Flow> Evaluator::Execute(const Block& block) {
  Restore<int> restore(depth_, depth_ + 1);
  if (depth_ > limits_.depth) {
    return Refuse("The chat template nests blocks and calls more than " +
                  std::to_string(limits_.depth) + " levels deep.");
  }
  for (const auto& statement : block) {
    TRY(Charge(1));
    ASSIGN_OR_RETURN(const Flow flow, ExecuteOne(*statement));
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Result<Evaluator::Flow> Evaluator::ExecuteOne(const Statement& statement) {
  switch (statement.kind) {
    case StatementKind::kText:
      TRY(Print(statement.text));
      break;
    case StatementKind::kPrint: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value));
      Result<std::string> text = ToText(value);
      if (!text.ok()) return AtLine(std::move(text).error(), statement.line);
      TRY(Print(*text));
      break;
    }
    case StatementKind::kIf:
      return ExecuteIf(statement);
    case StatementKind::kFor:
      return ExecuteFor(statement);
    case StatementKind::kSet:
    case StatementKind::kSetBlock:
      TRY(ExecuteSet(statement));
      break;
    case StatementKind::kMacro:
      TRY(ExecuteMacro(statement));
      break;
    case StatementKind::kCall:
      TRY(ExecuteCall(statement));
      break;
    case StatementKind::kFilter: {
      ASSIGN_OR_RETURN(const Value value, Capture(statement.body, statement.filters));
      ASSIGN_OR_RETURN(const std::string text, ToText(value));
      TRY(Print(text));
      break;
    }
    case StatementKind::kWith:
      TRY(ExecuteWith(statement));
      break;
    case StatementKind::kDo:
      TRY(Evaluate(*statement.value));
      break;
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
    case StatementKind::kBlock:
      return Execute(statement.body);
  }
  return Flow::kNormal;
}

Result<Evaluator::Flow> Evaluator::ExecuteIf(const Statement& statement) {
  for (const Statement::Branch& branch : statement.branches) {
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*branch.condition));
    if (condition.Truthy()) return Execute(branch.body);
  }
  return Execute(statement.body);
}

Result<std::vector<Value>> Evaluator::ItemsOf(const Statement& loop) {
  ASSIGN_OR_RETURN(const Value iterable, Evaluate(*loop.value));
  auto items = IterableItems(*this, iterable);
  if (!items.ok()) return AtLine(std::move(items).error(), loop.line);
  if (!loop.condition) return items;
  std::vector<Value> kept;
  for (Value& item : *items) {
    Restore<std::shared_ptr<Scope>> restore(scope_, std::make_shared<Scope>(scope_));
    TRY(Bind(loop.targets, item));
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*loop.condition));
    if (condition.Truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

Result<Evaluator::Flow> Evaluator::ExecuteFor(const Statement& statement) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, ItemsOf(statement));
  if (items.empty()) return Execute(statement.otherwise);
  const auto count = static_cast<int64_t>(items.size());
  for (int64_t i = 0; i < count; ++i) {
    const Value& item = items[static_cast<size_t>(i)];
    // Variables set in one turn are gone in the next, as in Jinja.
    Restore<std::shared_ptr<Scope>> restore(scope_, std::make_shared<Scope>(scope_));
    auto loop = std::make_shared<ObjectData>();
    loop->Set("index", Value::Integer(i + 1));
    loop->Set("index0", Value::Integer(i));
    loop->Set("revindex", Value::Integer(count - i));
    loop->Set("revindex0", Value::Integer(count - i - 1));
    loop->Set("first", Value::Bool(i == 0));
    loop->Set("last", Value::Bool(i + 1 == count));
    loop->Set("length", Value::Integer(count));
    loop->Set("previtem", i > 0 ? items[static_cast<size_t>(i - 1)] : Value());
    loop->Set("nextitem", i + 1 < count ? items[static_cast<size_t>(i + 1)] : Value());
    TRY(Charge(10));
    scope_->Set("loop", Value::Object(std::move(loop)));
    TRY(Bind(statement.targets, item));
    ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNormal;
}

Status Evaluator::ExecuteWith(const Statement& statement) {
  auto scope = std::make_shared<Scope>(scope_);
  for (const Statement::Assignment& assignment : statement.assignments) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*assignment.value));
    scope->Set(assignment.name, std::move(value));
  }
  Restore<std::shared_ptr<Scope>> restore(scope_, std::move(scope));
  TRY(Execute(statement.body));
  return OkStatus();
}

Status Evaluator::Bind(const std::vector<std::string>& targets, Value value) {
  TRY(Charge(1 + scope_->variable_count() / 16));
  if (targets.size() == 1) {
    scope_->Set(targets[0], std::move(value));
    return OkStatus();
  }
  if (!value.IsArray() || value.items().size() != targets.size()) {
    return Refuse("The chat template unpacks " + std::string(value.KindName()) +
                  (value.IsArray() ? " of " + std::to_string(value.items().size()) : "") +
                  " into " + std::to_string(targets.size()) + " variables.");
  }
  const std::vector<Value>& parts = value.items();
  for (size_t i = 0; i < targets.size(); ++i) scope_->Set(targets[i], parts[i]);
  return OkStatus();
}

Status Evaluator::ExecuteSet(const Statement& statement) {
  Value value;
  if (statement.kind == StatementKind::kSetBlock) {
    ASSIGN_OR_RETURN(value, Capture(statement.body, statement.filters));
  } else {
    ASSIGN_OR_RETURN(value, Evaluate(*statement.value));
  }
  if (statement.target_attribute.empty()) return Bind(statement.targets, value);
  const Value* target = scope_->Find(statement.targets[0]);
  if (target == nullptr || !target->Is(Value::Kind::kNamespace)) {
    return AtLine(
        Refuse("The chat template sets " + statement.targets[0] + "." + statement.target_attribute +
               ", but " + statement.targets[0] + " is no namespace."),
        statement.line);
  }
  if (value.depth() + 1 > kMaxValueDepth) {
    return Refuse("The chat template nests values more than " + std::to_string(kMaxValueDepth) +
                  " levels deep.");
  }
  const std::shared_ptr<ObjectData> object = target->object();
  object->Set(statement.target_attribute, std::move(value));
  return OkStatus();
}

Result<Value> Evaluator::Capture(const Block& block,
                                 const std::vector<Statement::Filter>& filters) {
  std::string text;
  {
    Restore<std::string*> restore_out(out_, &text);
    Restore<std::shared_ptr<Scope>> restore_scope(scope_, std::make_shared<Scope>(scope_));
    TRY(Execute(block));
  }
  ASSIGN_OR_RETURN(Value value, MakeString(std::move(text)));
  for (const Statement::Filter& filter : filters) {
    ASSIGN_OR_RETURN(const CallArguments arguments, EvaluateArguments(filter.arguments));
    ASSIGN_OR_RETURN(value, Filter(filter.name, value, arguments));
  }
  return value;
}

Value Evaluator::MakeMacro(const Statement& statement, std::string name) {
  captured_scopes_.push_back(scope_);
  auto function = std::make_shared<FunctionData>();
  function->name = name;
  // The tree and this evaluator outlive every value.
  function->call = [&statement, name = std::move(name), scope = scope_](
                       Evaluator& evaluator, const CallArguments& arguments) {
    return evaluator.CallMacro(statement, name, scope, arguments);
  };
  return Value::Function(std::move(function));
}

Status Evaluator::ExecuteMacro(const Statement& statement) {
  scope_->Set(statement.text, MakeMacro(statement, statement.text));
  return OkStatus();
}

Status Evaluator::ExecuteCall(const Statement& statement) {
  const Value caller = MakeMacro(statement, "caller");
  ASSIGN_OR_RETURN(const Value value, EvaluateCall(*statement.value, &caller));
  ASSIGN_OR_RETURN(const std::string text, ToText(value));
  return Print(text);
}

Result<Value> Evaluator::CallMacro(const Statement& macro, const std::string& name,
                                   const std::shared_ptr<Scope>& scope,
                                   const CallArguments& arguments) {
  std::string text;
  {
    Restore<std::string*> restore_out(out_, &text);
    Restore<std::shared_ptr<Scope>> restore_scope(scope_, std::make_shared<Scope>(scope));
    TRY(BindParameters(macro, name, arguments));
    TRY(Execute(macro.body));
  }
  return MakeString(std::move(text));
}

Status Evaluator::BindParameters(const Statement& macro, const std::string& name,
                                 const CallArguments& arguments) {
  TRY(Charge(1 + macro.parameters.size() + arguments.named.size()));
  auto extra_named = std::make_shared<ObjectData>();
  for (const auto& argument : arguments.named) {
    const std::string& key = argument.first;
    const Value& value = argument.second;
    const bool known = std::any_of(macro.parameters.begin(), macro.parameters.end(),
                                   [&](const Parameter& p) { return p.name == key; });
    if (known) continue;
    if (key == "caller") {
      scope_->Set("caller", value);
    } else if (macro.takes_kwargs) {
      extra_named->Set(key, value);
    } else {
      return Refuse("The macro " + name + " of the chat template has no parameter " + key + ".");
    }
  }
  if (arguments.positional.size() > macro.parameters.size() && !macro.takes_varargs) {
    return Refuse("The macro " + name + " of the chat template takes " +
                  std::to_string(macro.parameters.size()) + " arguments, but got " +
                  std::to_string(arguments.positional.size()) + ".");
  }
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Value* given = arguments.Get(i, macro.parameters[i].name);
    scope_->Set(macro.parameters[i].name, given == nullptr ? Value() : *given);
  }
  // A fallback may speak of other parameters.
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (!parameter.fallback || arguments.Get(i, parameter.name) != nullptr) continue;
    ASSIGN_OR_RETURN(Value value, Evaluate(*parameter.fallback));
    scope_->Set(parameter.name, std::move(value));
  }
  if (macro.takes_kwargs) scope_->Set("kwargs", Value::Object(std::move(extra_named)));
  if (macro.takes_varargs) {
    const size_t taken = std::min(macro.parameters.size(), arguments.positional.size());
    ASSIGN_OR_RETURN(Value rest,
                     MakeArray({arguments.positional.begin() + static_cast<ptrdiff_t>(taken),
                                arguments.positional.end()}));
    scope_->Set("varargs", std::move(rest));
  }
  return OkStatus();
}

Result<std::vector<Value>> IterableItems(Evaluator& evaluator, const Value& value) {
  TRY(evaluator.ChargeFor(value));
  std::vector<Value> items;
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return items;
    case Value::Kind::kArray:
      return value.items();
    case Value::Kind::kObject:
      for (const auto& [key, field] : value.object()->entries()) items.push_back(KeyValue(key));
      return items;
    case Value::Kind::kString: {
      TRY(evaluator.Charge(value.string().size()));
      const std::string_view text = value.string();
      for (size_t at = 0; at < text.size();) {
        const size_t length = utf8::LengthOf(text[at]);
        items.push_back(Value::String(std::string(text.substr(at, length))));
        at += length;
      }
      return items;
    }
    default:
      return Refuse("The chat template loops over " + std::string(value.KindName()) + ".");
  }
}

}  // namespace weft::jinja
