#include "api/call_grammar.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "api/call_arguments.h"
#include "chat/template_turns.h"
#include "grammar/text_without.h"

namespace weft::api {
namespace json = boost::json;
using grammar::ExprId;

namespace {

constexpr uint32_t kIdLength = 9;
constexpr uint32_t kMostSpaces = 4;

class CallRules {
 public:
  CallRules(const chat::Format& format, const chat::CallSpelling& spelling, bool may_think)
      : format_(format), spelling_(spelling), may_think_(may_think), arguments_(spelling, rules_) {}

  // What may be called. `where`: the field that names the tool in errors.
  std::optional<ApiError> Add(const json::object& function, const std::string& where) {
    const json::value* schema = function.if_contains("parameters");
    auto arguments = arguments_.Of(schema);
    if (!arguments.ok() && IsStrict(function))
      return RefuseField(where, "'" + where +
                                    "' is strict, but its 'parameters' cannot be "
                                    "followed. " +
                                    arguments.error().message());
    const ExprId behind_name = arguments.ok() ? arguments.value() : arguments_.Any();
    calls_.push_back(rules_.Sequence({rules_.Bytes(NameOf(function)), Number(), behind_name}));
    return std::nullopt;
  }

  // `required`: the answer is calls and nothing else but thoughts. `one`: a single call.
  grammar::Compiled Compile(bool required, bool one) {
    const grammar::RuleId root = rules_.Declare("The answer");
    rules_.Define(root, required ? Required(one) : Free(one));
    return grammar::Automaton::Compile(rules_, root);
  }

 private:
  ExprId Space() { return rules_.Repeat(rules_.Set({{' ', ' '}, {'\n', '\n'}}), 0, kMostSpaces); }

  ExprId Number() {
    if (!spelling_.numbers_calls) return rules_.Empty();
    return rules_.Sequence({rules_.Bytes(":"), rules_.Repeat(rules_.Set({{'0', '9'}}), 1, 3)});
  }

  // A text of the spelling, in which the probe's id stands for any.
  ExprId Text(std::string_view text) {
    const size_t id = text.find(chat::kProbeId);
    if (id == std::string_view::npos) return rules_.Bytes(text);
    const ExprId letter = rules_.Set({{'a', 'z'}, {'A', 'Z'}, {'0', '9'}});
    return rules_.Sequence({rules_.Bytes(text.substr(0, id)),
                            rules_.Repeat(letter, kIdLength, kIdLength),
                            Text(text.substr(id + chat::kProbeId.size()))});
  }

  // From the mark on: one call, or several in one block.
  ExprId Block(bool one) {
    const ExprId call = rules_.Share("A call", rules_.Choice(calls_));
    std::vector<ExprId> parts = {Text(spelling_.mark + spelling_.begin), call};
    if (!one && !spelling_.between.empty())
      parts.push_back(
          rules_.Repeat(rules_.Sequence({Text(spelling_.between), call}), 0, grammar::kUnbounded));
    parts.push_back(Text(spelling_.close));
    return rules_.Share("Calls", rules_.Sequence(std::move(parts)));
  }

  ExprId Thoughts() {
    if (!may_think_) return rules_.Empty();
    if (format_.has_channels)
      return rules_.Sequence({rules_.Bytes("<|channel|>analysis<|message|>"),
                              grammar::TextUpTo("<|end|>", rules_),
                              rules_.Bytes("<|start|>assistant")});
    return rules_.Sequence({rules_.Bytes(format_.thinking.begin),
                            grammar::TextUpTo(format_.thinking.end, rules_), Space()});
  }

  ExprId Required(bool one) {
    return rules_.Sequence(
        {Space(), rules_.Optional(Thoughts()), Text(spelling_.lead), Block(one), Space()});
  }

  ExprId Free(bool one) {
    if (spelling_.mark.empty()) {
      const ExprId any = rules_.Set(grammar::CodePointSet::All());
      const ExprId other =
          rules_.Set(grammar::CodePointSet({{'{', '{'}, {' ', ' '}, {'\n', '\n'}}).Complement());
      const ExprId text = rules_.Sequence({other, rules_.Repeat(any, 0, grammar::kUnbounded)});
      return rules_.Sequence({Space(), rules_.Choice({rules_.Empty(), Block(one), text})});
    }
    const ExprId text = grammar::TextWithout(spelling_.mark, rules_);
    const ExprId calls = rules_.Sequence({Block(one), text});
    return rules_.Sequence({text, rules_.Repeat(calls, 0, one ? 1 : grammar::kUnbounded)});
  }

  const chat::Format& format_;
  const chat::CallSpelling& spelling_;
  const bool may_think_;
  grammar::Rules rules_;
  CallArguments arguments_;
  std::vector<ExprId> calls_;
};

}  // namespace

bool HoldsCalls(const ChatRequest& request) {
  if (request.tool_choice.kind != ToolChoice::Kind::kAuto) return true;
  for (const json::value& tool : request.tools) {
    const json::object* function = FunctionOf(tool);
    if (function != nullptr && IsStrict(*function)) return true;
  }
  return false;
}

ApiResult<std::shared_ptr<const grammar::Automaton>> CompileCalls(
    const ChatRequest& request, const chat::Format& format,
    const std::optional<chat::CallSpelling>& spelling, bool may_think) {
  const ToolChoice& choice = request.tool_choice;
  const bool required = choice.kind != ToolChoice::Kind::kAuto;
  const std::string field = required ? "tool_choice" : "tools";
  if (!spelling)
    return RefuseField(field, "'" + field +
                                  "' asks for calls of a given form, and this model's chat "
                                  "template does not show how it calls: 'tool_choice' \"auto\" "
                                  "without 'strict' works.");
  CallRules rules(format, *spelling, may_think);
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const json::object* function = FunctionOf(request.tools[i]);
    if (function == nullptr) continue;
    if (choice.kind == ToolChoice::Kind::kNamed && NameOf(*function) != choice.name) continue;
    const std::string where = "tools[" + std::to_string(i) + "].function";
    if (auto error = rules.Add(*function, where)) return std::move(*error);
  }
  auto compiled = rules.Compile(required, request.ends_with_call);
  if (!compiled.ok())
    return RefuseField(field, "'tools' cannot be followed. " + compiled.error().message());
  return std::move(compiled).value();
}

}  // namespace weft::api
