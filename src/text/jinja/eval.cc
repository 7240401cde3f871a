#include "text/jinja/eval.h"

#include "text/jinja/repr.h"
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

Result<Value> Evaluator::MakeString(Text text) {
  if (text.size() > limits_.text_bytes) {
    return Refuse("The chat template made a string of " + std::to_string(text.size()) +
                  " bytes; the limit is " + std::to_string(limits_.text_bytes) + ".");
  }
  TRY(Charge(1 + text.size() / kBytesPerStep));
  return Value::OfText(std::move(text));
}

Result<Value> Evaluator::MakeArray(std::vector<Value> items, ArrayData::Form form) {
  TRY(Charge(1 + items.size()));
  auto array = std::make_shared<ArrayData>();
  for (const Value& item : items) array->depth = std::max(array->depth, item.depth() + 1);
  if (array->depth > kMaxValueDepth) {
    return Refuse("The chat template nests arrays more than " + std::to_string(kMaxValueDepth) +
                  " levels deep.");
  }
  array->items = std::move(items);
  array->form = form;
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

Result<int> Evaluator::Order(const Value& a, const Value& b) {
  uint64_t work = 0;
  auto order = Compare(a, b, work);
  TRY(Charge(work));
  if (work > kMaxEqualWork) return Refuse("The chat template compares values that are too large.");
  return order;
}

Result<Text> Evaluator::Run(const Block& block) {
  Text out;
  Restore<Text*> restore(out_, &out);
  ASSIGN_OR_RETURN(const Flow flow, Execute(block));
  if (flow != Flow::kNormal) {
    return Refuse("The chat template has a break or continue outside of a loop.");
  }
  return out;
}

Status Evaluator::Print(const Text& text) {
  TRY(Charge(1 + text.size() / kBytesPerStep));
  if (text.size() > limits_.text_bytes - std::min(out_->size(), limits_.text_bytes)) {
    return Refuse("The chat template wrote more than " + std::to_string(limits_.text_bytes) +
                  " bytes.");
  }
  out_->Append(text);
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
      TRY(Print(Text(statement.text)));
      break;
    case StatementKind::kPrint: {
      ASSIGN_OR_RETURN(const Value value, Evaluate(*statement.value));
      if (value.IsString()) {
        TRY(Print(value.text()));
        break;
      }
      Result<Text> text = ToText(value);
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
      ASSIGN_OR_RETURN(const Text text, ToText(value));
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
    case StatementKind::kBlock: {
      Restore<std::shared_ptr<Scope>> restore(scope_, std::make_shared<Scope>(scope_));
      return Execute(statement.body);
    }
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

Result<std::vector<Value>> Evaluator::ItemsOf(const Statement& loop, const Value& iterable) {
  auto items = IterableItems(*this, iterable);
  if (!items.ok()) return AtLine(std::move(items).error(), loop.line);
  if (!loop.condition) return items;
  std::vector<Value> kept;
  for (Value& item : *items) {
    Restore<std::shared_ptr<Scope>> restore(scope_, std::make_shared<Scope>(scope_));
    TRY(Bind(loop.target, item));
    ASSIGN_OR_RETURN(const Value condition, Evaluate(*loop.condition));
    if (condition.Truthy()) kept.push_back(std::move(item));
  }
  return kept;
}

// What the variable `loop` shows; the same one in all turns.
struct Evaluator::LoopState {
  std::vector<Value> items;
  size_t index = 0;
  int depth = 1;
  std::optional<std::vector<Value>> last_changed;  // the arguments of loop.changed() before
  Value cycle, changed;                            // functions

  Value Attribute(std::string_view name) const {
    const auto at = static_cast<int64_t>(index);
    const auto count = static_cast<int64_t>(items.size());
    if (name == "index") return Value::Integer(at + 1);
    if (name == "index0") return Value::Integer(at);
    if (name == "first") return Value::Bool(at == 0);
    if (name == "last") return Value::Bool(at + 1 == count);
    if (name == "length") return Value::Integer(count);
    if (name == "revindex") return Value::Integer(count - at);
    if (name == "revindex0") return Value::Integer(count - at - 1);
    if (name == "previtem") return at > 0 ? items[index - 1] : Value();
    if (name == "nextitem") return at + 1 < count ? items[index + 1] : Value();
    if (name == "depth") return Value::Integer(depth);
    if (name == "depth0") return Value::Integer(depth - 1);
    if (name == "cycle") return cycle;
    return name == "changed" ? changed : Value();
  }
};

Value Evaluator::MakeLoop(const Statement& statement, const std::shared_ptr<Scope>& scope,
                          const std::shared_ptr<LoopState>& state) {
  // The state holds the two functions, so they must not hold it.
  const auto method = [&](std::string name, auto run) {
    auto function = std::make_shared<FunctionData>();
    function->name = std::move(name);
    function->call = [weak = std::weak_ptr<LoopState>(state), run](
                         Evaluator& evaluator, const CallArguments& arguments) -> Result<Value> {
      const std::shared_ptr<LoopState> loop = weak.lock();
      if (!loop) return Refuse("The chat template uses a loop after its end.");
      return run(evaluator, *loop, arguments.positional);
    };
    return Value::Function(std::move(function));
  };
  state->cycle = method(
      "cycle", [](Evaluator&, LoopState& loop, const std::vector<Value>& values) -> Result<Value> {
        if (values.empty()) return Refuse("loop.cycle() of the chat template needs values.");
        return values[loop.index % values.size()];
      });
  state->changed = method(
      "changed",
      [](Evaluator& evaluator, LoopState& loop, const std::vector<Value>& values) -> Result<Value> {
        bool same = loop.last_changed && loop.last_changed->size() == values.size();
        for (size_t i = 0; same && i < values.size(); ++i) {
          ASSIGN_OR_RETURN(same, evaluator.Same((*loop.last_changed)[i], values[i]));
        }
        loop.last_changed = values;
        return Value::Bool(!same);
      });
  auto loop = std::make_shared<FunctionData>();
  loop->name = "loop";
  loop->attribute = [state](std::string_view name) { return state->Attribute(name); };
  // The tree and this evaluator outlive every value.
  loop->call = [&statement, scope, depth = state->depth](
                   Evaluator& evaluator, const CallArguments& arguments) -> Result<Value> {
    if (!statement.is_recursive || arguments.positional.size() != 1) {
      return Refuse("loop() of the chat template needs a recursive loop and one row of items.");
    }
    Text text;
    {
      Restore<Text*> restore(evaluator.out_, &text);
      TRY(evaluator.RunLoop(statement, scope, arguments.positional[0], depth + 1));
    }
    return evaluator.MakeString(std::move(text));
  };
  return Value::Function(std::move(loop));
}

Result<Evaluator::Flow> Evaluator::ExecuteFor(const Statement& statement) {
  ASSIGN_OR_RETURN(const Value iterable, Evaluate(*statement.value));
  return RunLoop(statement, scope_, iterable, 1);
}

Result<Evaluator::Flow> Evaluator::RunLoop(const Statement& statement,
                                           const std::shared_ptr<Scope>& scope,
                                           const Value& iterable, int depth) {
  Restore<std::shared_ptr<Scope>> restore_outer(scope_, scope);
  auto state = std::make_shared<LoopState>();
  ASSIGN_OR_RETURN(state->items, ItemsOf(statement, iterable));
  state->depth = depth;
  if (state->items.empty()) {
    Restore<std::shared_ptr<Scope>> restore(scope_, std::make_shared<Scope>(scope));
    return Execute(statement.otherwise);
  }
  const Value loop = MakeLoop(statement, scope, state);
  for (; state->index < state->items.size(); ++state->index) {
    // Variables set in one turn are gone in the next, as in Jinja.
    Restore<std::shared_ptr<Scope>> restore(scope_, std::make_shared<Scope>(scope));
    TRY(Charge(4));
    scope_->Set("loop", loop);
    TRY(Bind(statement.target, state->items[state->index]));
    ASSIGN_OR_RETURN(const Flow flow, Execute(statement.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNormal;
}

Status Evaluator::ExecuteWith(const Statement& statement) {
  auto scope = std::make_shared<Scope>(scope_);
  std::vector<Value> values;
  for (const Statement::Assignment& assignment : statement.assignments) {
    ASSIGN_OR_RETURN(Value value, Evaluate(*assignment.value));
    values.push_back(std::move(value));
  }
  Restore<std::shared_ptr<Scope>> restore(scope_, std::move(scope));
  for (size_t i = 0; i < values.size(); ++i) {
    TRY(Bind(statement.assignments[i].target, std::move(values[i])));
  }
  TRY(Execute(statement.body));
  return OkStatus();
}

Status Evaluator::Bind(const Target& target, Value value) {
  TRY(Charge(1 + scope_->variable_count() / 16));
  if (target.parts.empty()) {
    scope_->Set(target.name, std::move(value));
    return OkStatus();
  }
  const auto parts = IterableItems(*this, value);
  if (!parts.ok() || value.IsUndefined() || parts->size() != target.parts.size()) {
    return Refuse("The chat template unpacks " + std::string(value.KindName()) +
                  (parts.ok() ? " of " + std::to_string(parts->size()) : "") + " into " +
                  std::to_string(target.parts.size()) + " variables.");
  }
  for (size_t i = 0; i < parts->size(); ++i) TRY(Bind(target.parts[i], (*parts)[i]));
  return OkStatus();
}

Status Evaluator::ExecuteSet(const Statement& statement) {
  Value value;
  if (statement.kind == StatementKind::kSetBlock) {
    ASSIGN_OR_RETURN(value, Capture(statement.body, statement.filters));
  } else {
    ASSIGN_OR_RETURN(value, Evaluate(*statement.value));
  }
  if (statement.target_attribute.empty()) return Bind(statement.target, value);
  const std::string& name = statement.target.name;
  const Value* target = scope_->Find(name);
  if (target == nullptr || !target->Is(Value::Kind::kNamespace)) {
    return AtLine(Refuse("The chat template sets " + name + "." + statement.target_attribute +
                         ", but " + name + " is no namespace."),
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
  Text text;
  {
    Restore<Text*> restore_out(out_, &text);
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
  function->attribute = [name](std::string_view attribute) {
    return attribute == "name" ? Value::String(name) : Value();
  };
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
  ASSIGN_OR_RETURN(const Text text, ToText(value));
  return Print(text);
}

Result<Value> Evaluator::CallMacro(const Statement& macro, const std::string& name,
                                   const std::shared_ptr<Scope>& scope,
                                   const CallArguments& arguments) {
  Text text;
  {
    Restore<Text*> restore_out(out_, &text);
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
    const Value* given = i < arguments.positional.size()
                             ? &arguments.positional[i]
                             : arguments.Named(macro.parameters[i].name);
    scope_->Set(macro.parameters[i].name, given == nullptr ? Value() : *given);
  }
  // A fallback may speak of other parameters.
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& parameter = macro.parameters[i];
    if (!parameter.fallback || i < arguments.positional.size() ||
        arguments.Named(parameter.name) != nullptr) {
      continue;
    }
    ASSIGN_OR_RETURN(Value value, Evaluate(*parameter.fallback));
    scope_->Set(parameter.name, std::move(value));
  }
  if (macro.takes_kwargs) scope_->Set("kwargs", Value::Object(std::move(extra_named)));
  if (macro.takes_varargs) {
    const size_t taken = std::min(macro.parameters.size(), arguments.positional.size());
    ASSIGN_OR_RETURN(Value rest,
                     MakeArray({arguments.positional.begin() + static_cast<ptrdiff_t>(taken),
                                arguments.positional.end()},
                               ArrayData::Form::kTuple));
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
      if (value.IsIterator()) return std::exchange(value.array()->items, {});
      return value.items();
    case Value::Kind::kObject:
      for (const auto& [key, field] : value.object()->entries()) {
        items.push_back(KeyValue(*value.object(), key));
      }
      return items;
    case Value::Kind::kString: {
      TRY(evaluator.Charge(value.string().size()));
      const std::string_view text = value.string();
      for (size_t at = 0; at < text.size();) {
        const size_t length = utf8::LengthOf(text[at]);
        items.push_back(Value::OfText(value.text().Part(at, at + length)));
        at += length;
      }
      return items;
    }
    default:
      return Refuse("The chat template goes through " + std::string(value.KindName()) + ".");
  }
}

}  // namespace weft::jinja
