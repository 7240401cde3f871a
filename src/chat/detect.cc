#include "chat/detect.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <optional>

#include "chat/calls.h"
#include "chat/literal.h"
#include "chat/spelled_calls.h"
#include "chat/template_turns.h"

namespace weft::chat {
namespace json = boost::json;

namespace {

const Format* Find(std::string_view text) {
  for (const Family& family : Families()) {
    const bool fits = std::ranges::all_of(family.signs, [&](const std::string& sign) {
      return text.find(sign) != std::string_view::npos;
    });
    if (fits) return &family.format;
  }
  return nullptr;
}

// Where the object of JSON that is the call stands in `turn`.
std::optional<std::pair<size_t, size_t>> FindObject(std::string_view turn, size_t name) {
  for (size_t brace = turn.rfind('{', name); brace != std::string_view::npos;
       brace = brace == 0 ? std::string_view::npos : turn.rfind('{', brace - 1)) {
    std::string object;
    LiteralReader reader(turn, brace);
    Call call;
    if (reader.Value(&object) && ReadJsonCall(object, &call) && call.name == kProbeName)
      return std::pair(brace, reader.at());
  }
  return std::nullopt;
}

// A turn with a call against one with a text: what is left of the first between the beginning and
// the end that they share is the call with its marks.
//
//   <assistant>weft_said</s>
//   <assistant>@call {"name": "weft_probe", "arguments": {"key": "value"}} @done</s>
std::optional<CallSyntax> Derive(std::string_view turn, std::string_view plain) {
  const size_t said = plain.find(kProbeText);
  if (said == std::string_view::npos || !turn.starts_with(plain.substr(0, said)))
    return std::nullopt;
  turn.remove_prefix(said);
  const std::string_view tail = plain.substr(said + kProbeText.size());
  if (turn.ends_with(tail)) turn.remove_suffix(tail.size());
  const size_t name = turn.find(kProbeName);
  if (name == std::string_view::npos) return std::nullopt;
  CallSyntax syntax;
  if (const auto object = FindObject(turn, name)) {
    std::string_view begin = TrimmedText(turn.substr(0, object->first));
    std::string_view end = TrimmedText(turn.substr(object->second));
    if (begin.ends_with("[")) begin = TrimmedText(begin.substr(0, begin.size() - 1));
    if (end.starts_with("]")) end = TrimmedText(end.substr(1));
    syntax.begin = std::string(begin);
    if (!begin.empty()) syntax.end = std::string(end);
    return syntax;
  }
  const size_t brace = turn.find('{', name);
  syntax.begin = std::string(TrimmedText(turn.substr(0, name)));
  if (brace == std::string_view::npos || syntax.begin.empty()) return std::nullopt;
  const size_t after = name + kProbeName.size();
  syntax.form = CallForm::kNamed;
  syntax.name_end = std::string(TrimmedText(turn.substr(after, brace - after)));
  if (syntax.name_end.empty()) syntax.name_end = "\n";
  return syntax;
}

}  // namespace

Format DetectFormat(std::string_view template_source, const RenderTemplate& render) {
  Format format;
  const TemplateTurns turns(render);
  const auto form = turns.FindForm();
  const std::string turn =
      form ? turns.OfCalls({{{"key", "value"}}}, *form).value_or("") : std::string();
  if (const Format* known = Find(turn)) {
    format = *known;
  } else if (!turn.empty()) {
    const auto plain = turns.OfText();
    if (const auto derived = plain ? Derive(turn, *plain) : std::nullopt) {
      format.family = "derived";
      format.calls = {*derived};
    }
  } else if (const Format* named = Find(template_source)) {
    format = *named;
  }
  if (format.thinking.end != Thinking{"<think>", "</think>"}.end) return format;
  for (const Thinking& marks : ThinkingMarks()) {
    if (template_source.find(marks.begin) == std::string_view::npos ||
        template_source.find(marks.end) == std::string_view::npos)
      continue;
    format.thinking = marks;
    break;
  }
  return format;
}

}  // namespace weft::chat
