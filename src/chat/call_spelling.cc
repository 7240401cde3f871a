#include "chat/call_spelling.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <memory>
#include <string_view>
#include <utility>

#include "chat/answer_parser.h"
#include "chat/literal.h"
#include "chat/template_turns.h"

namespace weft::chat {
namespace json = boost::json;

namespace {

constexpr std::string_view kKey = "weft_key", kOther = "weft_other", kValue = "weft_value";
constexpr std::string_view kNumber = "51515";

// What stands in front of `part`, which is passed over with it; nullopt where it is not there.
std::optional<std::string> TakeUpTo(std::string_view part, std::string_view& text) {
  const size_t found = text.find(part);
  if (found == std::string_view::npos) return std::nullopt;
  std::string before(text.substr(0, found));
  text.remove_prefix(found + part.size());
  return before;
}

bool StripEnd(std::string_view end, std::string* text) {
  if (!text->ends_with(end)) return false;
  text->resize(text->size() - end.size());
  return true;
}

void TrimEnd(std::string* text) {
  text->resize(text->find_last_not_of(" \t\r\n") + 1);
}

// The turns of a model that calls, from where the first call begins to where the last one ends.
class Calls {
 public:
  Calls(const Format& format, const RenderTemplate& render, const std::vector<std::string>& ends)
      : format_(format), turns_(render), ends_(ends), form_(turns_.FindForm()) {
    plain_ = turns_.OfText().value_or("");
  }

  bool are_shown() const { return form_.has_value(); }
  // That of the format by which they begin; "": none.
  const std::string& mark() const { return mark_; }

  // "": the template does not show it.
  std::string Of(const json::array& arguments) {
    std::string turn = turns_.OfCalls(arguments, *form_).value_or("");
    CutFront(&turn);
    const std::string_view tail =
        std::string_view(plain_).substr(std::min(plain_.size(), EndOfText()));
    if (!tail.empty()) StripEnd(tail, &turn);
    for (const std::string& end : ends_)
      if (!end.empty()) turn.resize(std::min(turn.size(), turn.find(end)));
    TrimEnd(&turn);
    return turn;
  }

 private:
  size_t EndOfText() const {
    const size_t said = plain_.find(kProbeText);
    return said == std::string::npos ? plain_.size() : said + kProbeText.size();
  }

  // What comes before the mark, or what a turn without a call begins with as well.
  void CutFront(std::string* turn) {
    for (const CallSyntax& syntax : format_.calls) {
      const size_t found = syntax.begin.empty() ? std::string::npos : turn->find(syntax.begin);
      if (found == std::string::npos) continue;
      mark_ = syntax.begin;
      turn->erase(0, found);
      return;
    }
    const size_t said = plain_.find(kProbeText);
    if (said != std::string::npos && turn->starts_with(std::string_view(plain_).substr(0, said)))
      turn->erase(0, said);
  }

  const Format& format_;
  const TemplateTurns turns_;
  const std::vector<std::string>& ends_;
  const std::optional<CallMessageForm> form_;
  std::string plain_, mark_;
};

json::array OneCall(json::object arguments) {
  return {std::move(arguments)};
}
json::object Text() {
  return {{kKey, json::string(kValue)}};
}
json::object Number() {
  return {{kKey, 51515}};
}
json::object TextAndNumber() {
  return {{kKey, json::string(kValue)}, {kOther, 51515}};
}

// Behind a name: what stands in front of the object of JSON, which `text` is moved past.
std::optional<std::string> TakeObject(std::string_view& text) {
  for (size_t brace = text.find('{'); brace != std::string_view::npos;
       brace = text.find('{', brace + 1)) {
    std::vector<Member> members;
    LiteralReader reader(text, brace);
    if (!reader.Members(&members) || members.size() != 1 || members[0].first != kKey) continue;
    std::string before(text.substr(0, brace));
    text.remove_prefix(reader.at());
    return before;
  }
  return std::nullopt;
}

// The closing tag, or quote, by which strings end: `behind` stands behind one.
std::string EndOfStrings(std::string_view behind) {
  if (behind.starts_with("\"") || behind.starts_with("'")) return std::string(behind.substr(0, 1));
  const size_t open = behind.find('<');
  const size_t end = behind.find('>', open);
  if (open == std::string_view::npos || end == std::string_view::npos) return "";
  return std::string(behind.substr(open, end - open + 1));
}

// A call with one argument, behind its name.
struct OneValue {
  std::string first_key, begin, behind;

  static std::optional<OneValue> Read(std::string_view text, std::string_view value) {
    auto first_key = TakeUpTo(kKey, text);
    auto begin = first_key ? TakeUpTo(value, text) : std::nullopt;
    if (!begin) return std::nullopt;
    return OneValue{std::move(*first_key), std::move(*begin), std::string(text)};
  }
};

// Behind the name of the first call in a turn.
std::string_view BehindName(std::string_view turn) {
  TakeUpTo(kProbeName, turn);
  return turn;
}

// Of arguments that are no object: what differs between one string, one number, two of them and
// none shows each of the texts.
bool LearnArguments(Calls& calls, CallSpelling* spelling) {
  const auto one = OneValue::Read(BehindName(calls.Of(OneCall(Text()))), kValue);
  const auto number = OneValue::Read(BehindName(calls.Of(OneCall(Number()))), kNumber);
  const std::string two_turn = calls.Of(OneCall(TextAndNumber()));
  std::string_view two = BehindName(two_turn);
  std::string none(BehindName(calls.Of(OneCall({}))));
  if (!one || !number || !TakeUpTo(kValue, two)) return false;
  const auto to_next = TakeUpTo(kOther, two);
  ArgumentSpelling learned;
  learned.string_end = EndOfStrings(one->behind);
  if (learned.string_end.empty() || !to_next || one->first_key != number->first_key) return false;
  std::string_view behind = one->behind, next = *to_next;
  if (!TakeUpTo(learned.string_end, behind) || !TakeUpTo(learned.string_end, next)) return false;
  spelling->close = std::string(behind);
  learned.next = std::string(next);
  learned.first_key = one->first_key;
  learned.string_begin = one->begin;
  learned.other_begin = number->begin;
  learned.other_end = number->behind;
  learned.none = std::move(none);
  if (!StripEnd(behind, &learned.other_end) || !StripEnd(behind, &learned.none)) return false;
  learned.has_json_strings = learned.string_end == "\"" || learned.string_end == "'";
  spelling->arguments = std::move(learned);
  return true;
}

// Behind the arguments of the first of two calls, up to the name of the second.
std::string Between(const CallSpelling& spelling, Calls& calls) {
  const std::string turn = calls.Of({Text(), Text()});
  std::string_view text = BehindName(turn);
  if (spelling.arguments) {
    if (!TakeUpTo(kValue, text) || !TakeUpTo(spelling.arguments->string_end, text)) return "";
  } else if (!TakeObject(text)) {
    return "";
  }
  return TakeUpTo(kProbeName, text).value_or("");
}

std::optional<CallSpelling> Learn(Calls& calls) {
  CallSpelling spelling;
  const std::string turn = calls.Of(OneCall(Text()));
  std::string_view text = turn;
  auto begin = TakeUpTo(kProbeName, text);
  if (!begin) return std::nullopt;
  spelling.mark = calls.mark();
  spelling.begin = begin->substr(std::min(begin->size(), spelling.mark.size()));
  std::string_view behind = text;
  if (auto name_end = TakeObject(behind)) {
    spelling.name_end = std::move(*name_end);
    spelling.close = std::string(behind);
  } else if (!LearnArguments(calls, &spelling)) {
    return std::nullopt;
  }
  spelling.between = Between(spelling, calls);
  spelling.numbers_calls = spelling.name_end.starts_with(":0");
  if (spelling.numbers_calls) spelling.name_end.erase(0, 2);
  return spelling;
}

// Of families whose templates show no calls but tell models how to write them.
std::optional<CallSpelling> Known(const Format& format) {
  if (format.calls.empty()) return std::nullopt;
  const CallSyntax& syntax = format.calls.front();
  CallSpelling spelling;
  spelling.mark = syntax.begin;
  if (syntax.form == CallForm::kPython) {
    spelling.begin = "[";
    spelling.close = ")]" + syntax.end;
    spelling.between = "), ";
    spelling.arguments = {.none = "(",
                          .first_key = "(",
                          .next = ", ",
                          .string_begin = "=\"",
                          .string_end = "\"",
                          .other_begin = "=",
                          .other_end = "",
                          .has_json_strings = true};
    return spelling;
  }
  if (syntax.form != CallForm::kAny || syntax.keeps_begin) return std::nullopt;
  const bool has_end = !syntax.end.empty();
  spelling.begin = has_end ? "\n{\"name\": \"" : "{\"name\": \"";
  spelling.name_end = format.family == "llama3" ? "\", \"parameters\": " : "\", \"arguments\": ";
  spelling.close = has_end ? "}\n" + syntax.end : "}";
  return spelling;
}

// gpt-oss names the function in the head of a message.
CallSpelling OfChannels() {
  CallSpelling spelling;
  spelling.lead = "<|channel|>commentary ";
  spelling.mark = "to=functions.";
  spelling.name_end = " <|constrain|>json<|message|>";
  return spelling;
}

// What a spelling makes of calls must read as these calls.
bool ReadsBack(const Format& format, const CallSpelling& spelling, int count) {
  std::string text = spelling.lead + spelling.mark + spelling.begin;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += spelling.between;
    text += kProbeName;
    if (spelling.numbers_calls) text += ":" + std::to_string(i);
    if (const auto& spelled = spelling.arguments) {
      text += spelled->first_key + std::string(kKey) + spelled->other_begin + std::string(kNumber) +
              spelled->other_end + spelled->next + std::string(kOther) + spelled->string_begin +
              std::string(kValue) + spelled->string_end;
    } else {
      text += spelling.name_end + R"({"weft_key": 51515, "weft_other": "weft_value"})";
    }
  }
  text += spelling.close;
  const json::object function = {{"name", kProbeName}};
  const json::array tools = {{{"type", "function"}, {"function", function}}};
  AnswerParser parser(format, std::make_shared<const Tools>(tools), {.parses_calls = true});
  std::vector<Event> events = parser.Push(text);
  std::ranges::move(parser.Flush(), std::back_inserter(events));
  int found = 0;
  for (const Event& event : events) {
    if (event.kind == EventKind::kContent && !event.text.empty()) return false;
    if (event.kind == EventKind::kCallBegins) found += event.text == kProbeName ? 1 : count + 1;
    if (event.kind == EventKind::kArguments &&
        event.text != R"({"weft_key": 51515, "weft_other": "weft_value"})")
      return false;
  }
  return found == count;
}

}  // namespace

std::optional<CallSpelling> LearnSpelling(const Format& format, const RenderTemplate& render,
                                          const std::vector<std::string>& ends) {
  std::optional<CallSpelling> spelling;
  if (format.has_channels) {
    spelling = OfChannels();
  } else {
    Calls calls(format, render, ends);
    spelling = calls.are_shown() ? Learn(calls) : Known(format);
  }
  if (!spelling || !ReadsBack(format, *spelling, 1)) return std::nullopt;
  if (!spelling->between.empty() && !ReadsBack(format, *spelling, 2)) spelling->between.clear();
  return spelling;
}

}  // namespace weft::chat
