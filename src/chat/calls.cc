#include "chat/calls.h"

#include <optional>

#include "chat/literal.h"
#include "chat/spelled_calls.h"

namespace weft::chat {
namespace {

const std::string* Field(const std::vector<Member>& members,
                         std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names)
    for (const Member& member : members)
      if (member.first == name) return &member.second;
  return nullptr;
}

// A string in JSON says its text.
std::optional<std::string> TextOf(const std::string* json) {
  std::string text;
  if (json == nullptr || !LiteralReader(*json).String(&text)) return std::nullopt;
  return text;
}

// An object; one in a string; {} for nothing.
std::optional<std::string> ArgumentsOf(const std::string* json) {
  if (json == nullptr || *json == "null") return "{}";
  if (json->starts_with("{")) return *json;
  const auto text = TextOf(json);
  if (!text) return std::nullopt;
  std::string inner;
  LiteralReader reader(*text);
  if (reader.Value(&inner) && reader.AtEnd() && inner.starts_with("{")) return inner;
  return std::nullopt;
}

bool CallOf(const std::vector<Member>& members, Call* call) {
  const std::string* function = Field(members, {"function"});
  if (function != nullptr && function->starts_with("{")) {
    std::vector<Member> inner;
    return LiteralReader(*function).Members(&inner) && CallOf(inner, call);
  }
  const auto name = TextOf(Field(members, {"name", "tool_name", "function"}));
  const auto arguments = ArgumentsOf(Field(members, {"arguments", "parameters", "args"}));
  if (!name || !IsCallName(*name) || !arguments) return false;
  call->name = *name;
  call->arguments = *arguments;
  call->id = TextOf(Field(members, {"id"})).value_or("");
  return true;
}

// Objects and lists of objects, one behind the other.
BlockCalls ReadJson(std::string_view block) {
  BlockCalls found;
  LiteralReader reader(block);
  while (true) {
    while (reader.Accept("[") || reader.Accept(",") || reader.Accept("]") || reader.Accept(";")) {
    }
    if (reader.AtEnd()) {
      if (!found.calls.empty()) found.read_bytes = block.size();
      return found;
    }
    std::vector<Member> members;
    Call call;
    if (!reader.Members(&members) || !CallOf(members, &call)) return found;
    found.calls.push_back(std::move(call));
    found.read_bytes = reader.at();
  }
}

// functions.get_weather:0 is a name and an id in one.
void SplitId(Call* call) {
  constexpr std::string_view kPrefix = "functions.";
  if (!call->name.starts_with(kPrefix)) return;
  const size_t colon = call->name.rfind(':');
  if (colon != std::string::npos) call->id = call->name;
  call->name = call->name.substr(0, colon).substr(kPrefix.size());
}

// The id and the name in front of the arguments.
bool ReadHead(LiteralReader& reader, const CallSyntax& syntax, Call* call) {
  std::string_view part;
  if (!syntax.id_end.empty()) {
    if (!reader.Until(syntax.id_end, &part)) return false;
    call->id = std::string(TrimmedText(part));
  }
  const size_t brace = reader.rest().find('{');
  const size_t stop = reader.rest().find(syntax.name_end);
  if (stop == std::string_view::npos || (brace != std::string_view::npos && brace < stop)) {
    part = reader.rest().substr(0, brace);  // Mistral's first form has nothing in between
    if (brace == std::string_view::npos || !reader.Accept(part)) return false;
  } else {
    reader.Until(syntax.name_end, &part);
    reader.SkipSpace();
    // DeepSeek's first one says what it calls, "function", and then which.
    const std::string_view rest = reader.rest();
    if (!rest.starts_with("{") && !rest.starts_with("```") && TrimmedText(part) == "function" &&
        !reader.Until("\n", &part))
      return false;
  }
  call->name = std::string(TrimmedText(part.substr(0, part.find("[CALL_ID]"))));
  SplitId(call);
  return IsCallName(call->name);
}

BlockCalls ReadNamed(std::string_view block, const CallSyntax& syntax) {
  BlockCalls found;
  LiteralReader reader(block);
  while (!reader.AtEnd()) {
    Call call;
    if (!syntax.call.empty() && !reader.Accept(syntax.call)) return found;
    if (!ReadHead(reader, syntax, &call) || !ReadFencedObject(reader, &call.arguments))
      return found;
    if (!syntax.close.empty() && !reader.Accept(syntax.close) && !reader.AtEnd()) return found;
    found.calls.push_back(std::move(call));
    found.read_bytes = reader.at();
  }
  if (!found.calls.empty()) found.read_bytes = block.size();
  return found;
}

}  // namespace

bool IsCallName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxCallNameBytes &&
         name.find_first_of(" \t\r\n<>{}[]()\"'|") == std::string_view::npos;
}

std::string_view TrimmedText(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

bool ReadFencedObject(LiteralReader& reader, std::string* object) {
  const bool is_fenced = reader.Accept("```json") || reader.Accept("```");
  reader.SkipSpace();
  if (!reader.rest().starts_with("{") || !reader.Value(object)) return false;
  return !is_fenced || reader.Accept("```") || reader.AtEnd();
}

bool ReadJsonCall(std::string_view json, Call* call) {
  std::vector<Member> members;
  LiteralReader reader(json);
  return reader.Members(&members) && reader.AtEnd() && CallOf(members, call);
}

BlockCalls ReadCalls(std::string_view block, const CallSyntax& syntax, const Tools& tools) {
  const std::string_view text = TrimmedText(block);
  const bool has_json = text.starts_with("{") || text.starts_with("[");
  switch (syntax.form) {
    case CallForm::kAny:
      if (has_json) return ReadJson(block);
      return text.starts_with("<") ? ReadTagged(block, syntax.keeps_begin, tools)
                                   : ReadPairs(block, tools);
    case CallForm::kNamed:
      return has_json ? ReadJson(block) : ReadNamed(block, syntax);
    case CallForm::kElements:
      return ReadElements(block, syntax.call, tools);
    case CallForm::kPython:
      return ReadPython(block);
    case CallForm::kGemma:
      return ReadGemma(block);
  }
  return {};
}

}  // namespace weft::chat
