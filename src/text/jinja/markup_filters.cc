// Filters of chat templates for HTML and addresses, which Jinja has and few chat templates use.
#include <algorithm>
#include <cstdio>

#include "text/jinja/library.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

Result<Value> Safe(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(Text text, ToText(operand));
  text.set_markup(true);
  return evaluator.MakeString(std::move(text));
}

Result<Value> Escape(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  return evaluator.MakeString(EscapeHtml(text));
}

Result<Value> ForceEscape(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(Text text, ToText(operand));
  text.set_markup(false);
  return evaluator.MakeString(EscapeHtml(text));
}

// Without what stands between `open` and `close`.
Text WithoutParts(const Text& text, std::string_view open, std::string_view close) {
  const std::string_view bytes = text.bytes();
  Text rest;
  size_t done = 0;
  for (size_t at = bytes.find(open); at != bytes.npos; at = bytes.find(open, done)) {
    const size_t end = bytes.find(close, at + open.size());
    if (end == bytes.npos) break;
    rest.AppendPart(text, done, at);
    done = end + close.size();
  }
  rest.AppendPart(text, done, bytes.size());
  return rest;
}

// What EscapeHtml writes, and characters by their number; other names stay as they are.
std::string Unescaped(std::string_view html) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"amp", '&'}, {"lt", '<'}, {"gt", '>'}, {"quot", '"'}, {"apos", '\''}};
  std::string text;
  for (size_t at = 0; at < html.size();) {
    const size_t end = html[at] == '&' ? html.find(';', at) : html.npos;
    if (end == html.npos || end - at > 10) {
      text.push_back(html[at++]);
      continue;
    }
    const std::string_view name = html.substr(at + 1, end - at - 1);
    const auto* known = std::ranges::find(kNames, name, &std::pair<std::string_view, char>::first);
    const bool hex = name.starts_with("#x") || name.starts_with("#X");
    const auto code =
        name.starts_with('#') ? ParseDigits(name.substr(hex ? 2 : 1), hex ? 16 : 10) : std::nullopt;
    if (known != std::end(kNames)) {
      text.push_back(known->second);
    } else if (code && *code > 0 && *code < 0x110000 && (*code < 0xD800 || *code >= 0xE000)) {
      utf8::Append(text, static_cast<uint32_t>(*code));
    } else {
      text += html.substr(at, end + 1 - at);
    }
    at = end + 1;
  }
  return text;
}

Result<Value> StripTags(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  TRY(evaluator.Charge(text.size() / 4));
  const Text plain = WithoutParts(WithoutParts(text, "<!--", "-->"), "<", ">");
  const std::string_view bytes = plain.bytes();
  Text words;
  bool in_word = false;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    const bool space = python::IsSpace(utf8::Next(bytes, at));
    if (!space && !in_word && !words.empty()) words.Append(" ");
    if (!space) words.AppendPart(plain, begin, at);
    in_word = !space;
  }
  return evaluator.MakeString(ChangedInParts(words, Unescaped));
}

// urllib's quote: letters, digits, _.-~ stay, and "/" where `keeps_slash`.
std::string UrlQuoted(std::string_view text, bool keeps_slash, bool plus_for_space) {
  std::string quoted;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("_.-~").find(c) != std::string_view::npos ||
                       (c == '/' && keeps_slash);
    char escape[4];
    std::snprintf(escape, sizeof(escape), "%%%02X", static_cast<uint8_t>(c));
    if (plain) {
      quoted.push_back(c);
    } else {
      quoted += c == ' ' && plus_for_space ? "+" : escape;
    }
  }
  return quoted;
}

Result<Value> UrlEncode(Evaluator& evaluator, const Value& operand, const Given&) {
  const bool pairs = operand.Is(Value::Kind::kObject) || operand.IsArray();
  if (!pairs) {
    ASSIGN_OR_RETURN(const Text text, ToText(operand));
    return evaluator.MakeString(Text(UrlQuoted(text.bytes(), true, false), text.has_quoted()));
  }
  Value rows = operand;
  if (operand.Is(Value::Kind::kObject)) {
    ASSIGN_OR_RETURN(rows, evaluator.Filter("items", operand, {}));
  }
  ASSIGN_OR_RETURN(const std::vector<Value> items, IterableItems(evaluator, rows));
  Text query;
  for (const Value& item : items) {
    ASSIGN_OR_RETURN(const std::vector<Value> pair, IterableItems(evaluator, item));
    if (pair.size() != 2) return Refuse("The filter 'urlencode' needs pairs of a key and a value.");
    if (!query.empty()) query.Append("&");
    for (size_t i = 0; i < 2; ++i) {
      ASSIGN_OR_RETURN(const Text part, ToText(pair[i]));
      query.Append(UrlQuoted(part.bytes(), false, true), part.has_quoted());
      if (i == 0) query.Append("=");
    }
  }
  return evaluator.MakeString(std::move(query));
}

Result<Value> XmlAttributes(Evaluator& evaluator, const Value& operand, const Given& given) {
  if (!operand.Is(Value::Kind::kObject)) {
    return Refuse("The filter 'xmlattr' needs an object, not " + std::string(operand.KindName()) +
                  ".");
  }
  Text attributes;
  for (const auto& [key, value] : operand.object()->entries()) {
    if (value.IsNone() || value.IsUndefined()) continue;
    const Value name = KeyValue(*operand.object(), key);
    if (!name.IsString() || name.string().find_first_of(" \t\n\r\f\v/>=") != std::string::npos) {
      return Refuse("The filter 'xmlattr' gets a name that is no attribute's.");
    }
    ASSIGN_OR_RETURN(const Text text, ToText(value));
    if (!attributes.empty() || FlagArgument(given[0], true)) attributes.Append(" ");
    attributes.Append(EscapeHtml(name.text()));
    attributes.Append("=\"");
    attributes.Append(EscapeHtml(text));
    attributes.Append("\"");
  }
  return evaluator.MakeString(std::move(attributes));
}

// ---- 'wordwrap', as Python's textwrap cuts lines ----

struct WrapOptions {
  size_t width = 79;
  bool break_long_words = true;
};

bool WrapSpaceAt(std::string_view text, size_t at) {
  return std::string_view("\t\n\v\f\r ").find(text[at]) != std::string_view::npos;
}

// White space and words, in turn.
std::vector<Text> WrapChunks(const Text& line) {
  const std::string_view bytes = line.bytes();
  std::vector<Text> chunks;
  for (size_t at = 0; at < bytes.size();) {
    const bool space = WrapSpaceAt(bytes, at);
    size_t end = at;
    while (end < bytes.size() && WrapSpaceAt(bytes, end) == space) ++end;
    chunks.push_back(line.Part(at, end));
    at = end;
  }
  return chunks;
}

size_t LengthOfText(const Text& text) {
  return utf8::CountCodePoints(text.bytes());
}

// The first `count` characters of `text`, which loses them.
Text TakeCharacters(Text& text, size_t count) {
  size_t at = 0;
  for (size_t i = 0; i < count && at < text.size(); ++i) at += utf8::LengthOf(text.bytes()[at]);
  Text head = text.Part(0, at);
  text = text.Part(at, text.size());
  return head;
}

std::vector<Text> WrapLine(const Text& line, const WrapOptions& options) {
  std::vector<Text> chunks = WrapChunks(line);
  std::ranges::reverse(chunks);  // the next one is last
  std::vector<Text> lines;
  const auto blank = [](const Text& chunk) { return WrapSpaceAt(chunk.bytes(), 0); };
  while (!chunks.empty()) {
    std::vector<Text> current;
    size_t length = 0;
    if (!lines.empty() && blank(chunks.back())) chunks.pop_back();
    while (!chunks.empty() && length + LengthOfText(chunks.back()) <= options.width) {
      length += LengthOfText(chunks.back());
      current.push_back(std::move(chunks.back()));
      chunks.pop_back();
    }
    if (!chunks.empty() && LengthOfText(chunks.back()) > options.width) {
      if (options.break_long_words) {
        current.push_back(TakeCharacters(chunks.back(), options.width - length));
        if (chunks.back().empty()) chunks.pop_back();
      } else if (current.empty()) {
        current.push_back(std::move(chunks.back()));
        chunks.pop_back();
      }
    }
    if (!current.empty() && (current.back().empty() || blank(current.back()))) current.pop_back();
    if (current.empty()) continue;
    Text wrapped;
    for (const Text& chunk : current) wrapped.Append(chunk);
    lines.push_back(std::move(wrapped));
  }
  return lines;
}

Result<Value> WordWrap(Evaluator& evaluator, const Value& operand, const Given& given) {
  constexpr std::string_view kName = "The filter 'wordwrap'";
  ASSIGN_OR_RETURN(const Text text, TextArgument(&operand, kName));
  ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(given[0], 79, kName));
  if (width < 1) return Refuse("The filter 'wordwrap' needs a width of at least 1.");
  WrapOptions options;
  options.width = static_cast<size_t>(width);
  options.break_long_words = FlagArgument(given[1], true);
  Text separator("\n");
  if (IsGiven(given[2])) {
    ASSIGN_OR_RETURN(separator, TextArgument(given[2], kName));
  }
  const bool hyphens = FlagArgument(given[3], true);
  if (hyphens && text.bytes().find('-') != std::string::npos) {
    return Refuse(
        "The filter 'wordwrap' of the chat template gets a text with '-', where weft "
        "does not know where Python cuts; break_on_hyphens=false helps.");
  }
  TRY(evaluator.Charge(text.size()));
  Text out;
  bool first_line = true;
  for (const Text& line : LinesOf(text, false)) {
    if (!first_line) out.Append(separator);
    first_line = false;
    const std::vector<Text> wrapped = WrapLine(line, options);
    for (size_t i = 0; i < wrapped.size(); ++i) {
      if (i > 0) out.Append(separator);
      out.Append(wrapped[i]);
    }
  }
  return evaluator.MakeString(std::move(out));
}

constexpr FilterEntry kMarkupFilters[] = {
    {"e", "", Escape},
    {"escape", "", Escape},
    {"forceescape", "", ForceEscape},
    {"safe", "", Safe},
    {"striptags", "", StripTags},
    {"urlencode", "", UrlEncode},
    {"wordwrap", "width,break_long_words,wrapstring,break_on_hyphens", WordWrap},
    {"xmlattr", "autospace", XmlAttributes}};

}  // namespace

const FilterEntry* FindMarkupFilter(std::string_view name) {
  return FindIn(kMarkupFilters, name);
}

}  // namespace weft::jinja
