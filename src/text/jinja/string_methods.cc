// Methods of strings in chat templates: those of Python's str.
#include <algorithm>

#include "text/jinja/format.h"
#include "text/jinja/library.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

// Methods of markup give markup.
Result<Value> Like(Evaluator& evaluator, const Value& self, Text text) {
  text.set_markup(self.text().is_markup());
  return evaluator.MakeString(std::move(text));
}

// A string argument; beside markup it is escaped.
Result<Text> TextBeside(const Value& self, const Value* given, std::string_view what) {
  ASSIGN_OR_RETURN(Text text, TextArgument(given, what));
  return self.text().is_markup() ? EscapeHtml(text) : text;
}

template <std::string (*kChange)(std::string_view)>
Result<Value> ChangeString(Evaluator& evaluator, const Value& self, const Given&) {
  return Like(evaluator, self, ChangedInParts(self.text(), kChange));
}

template <bool kLeft, bool kRight>
Result<Value> Strip(Evaluator& evaluator, const Value& self, const Given& given) {
  if (!IsGiven(given[0])) return evaluator.MakeString(StripText(self.text(), kLeft, kRight));
  ASSIGN_OR_RETURN(const Text characters, TextArgument(given[0], "strip()"));
  TRY(evaluator.Charge(self.string().size() * (1 + characters.size() / 16)));
  return evaluator.MakeString(StripText(self.text(), kLeft, kRight, &characters.bytes()));
}

// ---- places ----

// Bytes [begin, end) of the characters that `start` and `stop` name; nullopt when start is behind
// the end, where Python finds nothing, not even ''.
struct Window {
  size_t begin, end;
};

Result<std::optional<Window>> WindowOf(const std::string& text, const Value* start,
                                       const Value* stop, std::string_view what) {
  const auto count = static_cast<int64_t>(utf8::CountCodePoints(text));
  ASSIGN_OR_RETURN(int64_t from, IntegerArgument(start, 0, what, true));
  ASSIGN_OR_RETURN(int64_t to, IntegerArgument(stop, count, what, true));
  if (from < 0) from = std::max<int64_t>(from + count, 0);
  if (to < 0) to = std::max<int64_t>(to + count, 0);
  to = std::min(to, count);
  if (from > to) return std::optional<Window>();
  const auto offset = [&](int64_t characters) {
    size_t at = 0;
    for (int64_t i = 0; i < characters; ++i) at += utf8::LengthOf(text[at]);
    return at;
  };
  return std::optional<Window>({offset(from), offset(to)});
}

template <bool kFromRight>
Result<std::optional<int64_t>> PlaceOf(Evaluator& evaluator, const Value& self,
                                       const Given& given) {
  ASSIGN_OR_RETURN(const Text part, TextArgument(given[0], "find()"));
  const std::string& text = self.string();
  TRY(evaluator.Charge(text.size() / 16));
  ASSIGN_OR_RETURN(const auto window, WindowOf(text, given[1], given[2], "find()"));
  if (!window) return std::optional<int64_t>();
  const std::string_view searched =
      std::string_view(text).substr(window->begin, window->end - window->begin);
  const size_t at = kFromRight ? searched.rfind(part.bytes()) : searched.find(part.bytes());
  if (at == std::string_view::npos) return std::optional<int64_t>();
  const std::string_view before = std::string_view(text).substr(0, window->begin + at);
  return std::optional(static_cast<int64_t>(utf8::CountCodePoints(before)));
}

template <bool kFromRight>
Result<Value> Find(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const auto place, PlaceOf<kFromRight>(evaluator, self, given));
  return Value::Integer(place.value_or(-1));
}

template <bool kFromRight>
Result<Value> FindOrRefuse(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const auto place, PlaceOf<kFromRight>(evaluator, self, given));
  if (!place) return Refuse("index() of the chat template did not find its text.");
  return Value::Integer(*place);
}

Result<Value> CountParts(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const Text part, TextArgument(given[0], "count()"));
  const std::string& text = self.string();
  TRY(evaluator.Charge(text.size() / 16));
  ASSIGN_OR_RETURN(const auto window, WindowOf(text, given[1], given[2], "count()"));
  if (!window) return Value::Integer(0);
  const std::string_view searched =
      std::string_view(text).substr(window->begin, window->end - window->begin);
  if (part.empty()) {
    return Value::Integer(static_cast<int64_t>(utf8::CountCodePoints(searched)) + 1);
  }
  int64_t count = 0;
  for (size_t at = searched.find(part.bytes()); at != std::string_view::npos;
       at = searched.find(part.bytes(), at + part.size())) {
    ++count;
  }
  return Value::Integer(count);
}

// The methods startswith and endswith take a string or a tuple of them.
template <bool kAtStart>
Result<Value> HasAffix(Evaluator&, const Value& self, const Given& given) {
  const std::string_view text = self.string();
  const bool several = given[0]->IsArray() && given[0]->array()->IsTuple();
  const std::vector<Value> affixes = several ? given[0]->items() : std::vector<Value>{*given[0]};
  ASSIGN_OR_RETURN(const auto window,
                   WindowOf(self.string(), given[1], given[2], "startswith() and endswith()"));
  bool found = false;
  for (const Value& affix : affixes) {
    ASSIGN_OR_RETURN(const Text wanted, TextArgument(&affix, "startswith() and endswith()"));
    if (!window) continue;
    const std::string_view searched = text.substr(window->begin, window->end - window->begin);
    found = found ||
            (kAtStart ? searched.starts_with(wanted.bytes()) : searched.ends_with(wanted.bytes()));
  }
  return Value::Bool(found);
}

template <bool kAtStart>
Result<Value> RemoveAffix(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const Text affix, TextBeside(self, given[0], "removeprefix()"));
  const std::string_view text = self.string();
  size_t begin = 0;
  size_t end = text.size();
  if (kAtStart && text.starts_with(affix.bytes())) begin = affix.size();
  if (!kAtStart && text.ends_with(affix.bytes())) end -= affix.size();
  return evaluator.MakeString(self.text().Part(begin, end));
}

// ---- cutting ----

// Ranges of bytes: the words of `text`; after `most` splits the rest is one piece.
std::vector<TextRange> SplitWords(std::string_view text, int64_t most) {
  std::vector<TextRange> parts;
  size_t at = 0;
  const auto space_at = [&](size_t i) { return python::IsSpace(utf8::Next(text, i)); };
  while (true) {
    while (at < text.size() && space_at(at)) at += utf8::LengthOf(text[at]);
    if (at >= text.size()) return parts;
    size_t end = at;
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      // Python keeps the space behind the rest.
      parts.push_back({at, text.size()});
      return parts;
    }
    while (end < text.size() && !space_at(end)) end += utf8::LengthOf(text[end]);
    parts.push_back({at, end});
    at = end;
  }
}

// The same from the right; what is left at the front keeps the space before it.
std::vector<TextRange> SplitWordsFromRight(std::string_view text, int64_t most) {
  std::vector<TextRange> parts;
  size_t end = text.size();
  const auto space_before = [&](size_t i) {
    size_t at = utf8::Previous(text, i);
    return python::IsSpace(utf8::Next(text, at));
  };
  while (true) {
    while (end > 0 && space_before(end)) end = utf8::Previous(text, end);
    if (end == 0) break;
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      parts.push_back({0, end});
      break;
    }
    size_t begin = end;
    while (begin > 0 && !space_before(begin)) begin = utf8::Previous(text, begin);
    parts.push_back({begin, end});
    end = begin;
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<TextRange> SplitAt(std::string_view text, std::string_view separator, int64_t most,
                               bool from_right) {
  std::vector<TextRange> parts;
  size_t begin = 0;
  size_t end = text.size();
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const std::string_view rest = text.substr(0, end);
    const size_t at =
        from_right ? rest.substr(begin).rfind(separator) : rest.find(separator, begin);
    if (at == std::string_view::npos) break;
    if (from_right) {
      parts.push_back({at + separator.size(), end});
      end = at;
    } else {
      parts.push_back({begin, at});
      begin = at + separator.size();
    }
  }
  parts.push_back({begin, end});
  if (from_right) std::ranges::reverse(parts);
  return parts;
}

template <bool kFromRight>
Result<Value> Split(Evaluator& evaluator, const Value& self, const Given& given) {
  const std::string& text = self.string();
  TRY(evaluator.Charge(text.size() / 4));
  ASSIGN_OR_RETURN(const int64_t most, IntegerArgument(given[1], -1, "split()"));
  std::vector<TextRange> parts;
  if (!IsGiven(given[0])) {
    parts = kFromRight ? SplitWordsFromRight(text, most) : SplitWords(text, most);
  } else {
    ASSIGN_OR_RETURN(const Text separator, TextArgument(given[0], "split()"));
    if (separator.empty()) return Refuse("split() of the chat template gets an empty separator.");
    parts = SplitAt(text, separator.bytes(), most, kFromRight);
  }
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const TextRange& part : parts) {
    items.push_back(Value::OfText(self.text().Part(part.begin, part.end)));
  }
  return evaluator.MakeArray(std::move(items));
}

template <bool kFromRight>
Result<Value> Partition(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const Text separator, TextArgument(given[0], "partition()"));
  if (separator.empty()) return Refuse("partition() of the chat template gets an empty separator.");
  const std::string& text = self.string();
  const size_t at = kFromRight ? text.rfind(separator.bytes()) : text.find(separator.bytes());
  std::vector<Value> parts;
  const auto add = [&](size_t begin, size_t end) {
    parts.push_back(Value::OfText(self.text().Part(begin, end)));
  };
  if (at == std::string::npos) {
    for (size_t i = 0; i < 3; ++i) {
      const bool whole = i == (kFromRight ? 2 : 0);
      add(0, whole ? text.size() : 0);
    }
  } else {
    add(0, at);
    add(at, at + separator.size());
    add(at + separator.size(), text.size());
  }
  return evaluator.MakeArray(std::move(parts), ArrayData::Form::kTuple);
}

Result<Value> SplitLines(Evaluator& evaluator, const Value& self, const Given& given) {
  std::vector<Value> lines;
  for (Text& line : LinesOf(self.text(), FlagArgument(given[0], false))) {
    lines.push_back(Value::OfText(std::move(line)));
  }
  return evaluator.MakeArray(std::move(lines));
}

// ---- putting together ----

Result<Value> Replace(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const Text from, TextBeside(self, given[0], "replace()"));
  ASSIGN_OR_RETURN(const Text to, TextBeside(self, given[1], "replace()"));
  ASSIGN_OR_RETURN(const int64_t count, IntegerArgument(given[2], -1, "replace()"));
  ASSIGN_OR_RETURN(Text text, ReplaceAll(evaluator, self.text(), from.bytes(), to, count));
  return Like(evaluator, self, std::move(text));
}

Result<Value> JoinItems(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const std::vector<Value> items, IterableItems(evaluator, *given[0]));
  Text text;
  for (size_t i = 0; i < items.size(); ++i) {
    ASSIGN_OR_RETURN(const Text item, TextBeside(self, &items[i], "join()"));
    if (i > 0) text.Append(self.text());
    text.Append(item);
    TRY(evaluator.Charge(1 + (self.string().size() + item.size()) / 16));
  }
  return Like(evaluator, self, std::move(text));
}

enum class Side { kLeft, kRight, kBoth };

// The text at `kSide` of a field of the width. Python centers an odd rest to the left in an odd
// field.
template <Side kSide>
Result<Value> Justify(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(given[0], 0, "center()"));
  Text fill(" ");
  if (given[1] != nullptr) {
    ASSIGN_OR_RETURN(fill, TextArgument(given[1], "center()"));
  }
  if (utf8::CountCodePoints(fill.bytes()) != 1) {
    return Refuse("center() of the chat template fills with one character.");
  }
  const auto length = static_cast<int64_t>(utf8::CountCodePoints(self.string()));
  if (width <= length) return self;
  if (width > (1 << 24))
    return Refuse("center() of the chat template has a width that is too large.");
  const int64_t missing = width - length;
  TRY(evaluator.Charge(static_cast<uint64_t>(missing)));
  const int64_t left = kSide == Side::kLeft    ? 0
                       : kSide == Side::kRight ? missing
                                               : missing / 2 + (missing & width & 1);
  Text text;
  for (int64_t i = 0; i < left; ++i) text.Append(fill);
  text.Append(self.text());
  for (int64_t i = left; i < missing; ++i) text.Append(fill);
  return Like(evaluator, self, std::move(text));
}

Result<Value> ZeroFill(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const int64_t width, IntegerArgument(given[0], 0, "zfill()"));
  const auto length = static_cast<int64_t>(utf8::CountCodePoints(self.string()));
  if (width <= length) return self;
  if (width > (1 << 24))
    return Refuse("zfill() of the chat template has a width that is too large.");
  const size_t sign = self.string().starts_with('-') || self.string().starts_with('+') ? 1 : 0;
  Text text = self.text().Part(0, sign);
  text.Append(std::string(static_cast<size_t>(width - length), '0'));
  text.AppendPart(self.text(), sign, self.string().size());
  return Like(evaluator, self, std::move(text));
}

Result<Value> ExpandTabs(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(const int64_t tab, IntegerArgument(given[0], 8, "expandtabs()"));
  if (tab > 1024) return Refuse("expandtabs() of the chat template takes at most 1024.");
  const std::string& bytes = self.string();
  Text text;
  int64_t column = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t length = utf8::LengthOf(bytes[at]);
    if (bytes[at] == '\t') {
      const int64_t spaces = tab > 0 ? tab - column % tab : 0;
      text.Append(std::string(static_cast<size_t>(spaces), ' '));
      TRY(evaluator.Charge(1 + static_cast<uint64_t>(spaces) / 16));
      column += spaces;
    } else {
      text.AppendPart(self.text(), at, at + length);
      column = bytes[at] == '\n' || bytes[at] == '\r' ? 0 : column + 1;
    }
    at += length;
  }
  return Like(evaluator, self, std::move(text));
}

Result<Value> FormatString(Evaluator& evaluator, const Value& self, const Given& given) {
  ASSIGN_OR_RETURN(Text text, FormatBraces(evaluator, self.text(), given.all()));
  return Like(evaluator, self, std::move(text));
}

Result<Value> FormatMap(Evaluator& evaluator, const Value& self, const Given& given) {
  if (!given[0]->Is(Value::Kind::kObject)) {
    return Refuse("format_map() of the chat template needs an object.");
  }
  CallArguments fields;
  for (const auto& [key, value] : given[0]->object()->entries()) {
    const Value name = KeyValue(*given[0]->object(), key);
    if (name.IsString()) fields.named.emplace_back(name.string(), value);
  }
  ASSIGN_OR_RETURN(Text text, FormatBraces(evaluator, self.text(), fields));
  return Like(evaluator, self, std::move(text));
}

// ---- questions ----

template <bool (*kAllowed)(uint32_t), bool kIfEmpty = false>
Result<Value> AllCharacters(Evaluator&, const Value& self, const Given&) {
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    if (!kAllowed(utf8::Next(text, at))) return Value::Bool(false);
  }
  return Value::Bool(kIfEmpty || !text.empty());
}

bool IsLetterOrNumber(uint32_t c) {
  return python::IsLetter(c) || python::IsNumber(c) || python::IsDigit(c);
}
bool IsAscii(uint32_t c) {
  return c < 0x80;
}

template <const char* kTest>
Result<Value> PassesTest(Evaluator& evaluator, const Value& self, const Given&) {
  ASSIGN_OR_RETURN(const bool passed, evaluator.Test(kTest, self, {}));
  return Value::Bool(passed);
}
constexpr char kLower[] = "lower", kUpper[] = "upper";

// Capitals only where a run of letters begins, and nothing else there.
Result<Value> IsTitleText(Evaluator&, const Value& self, const Given&) {
  const std::string& text = self.string();
  bool any = false;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = utf8::Next(text, at);
    const bool capital = python::IsUpper(c) || python::IsTitle(c);
    if (capital ? in_word : (python::IsLower(c) && !in_word)) return Value::Bool(false);
    in_word = capital || python::IsLower(c);
    any = any || in_word;
  }
  return Value::Bool(any);
}

Result<Value> IsIdentifier(Evaluator&, const Value& self, const Given&) {
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    const bool first = at == 0;
    const uint32_t c = utf8::Next(text, at);
    const bool starts = c == '_' || (python::IsLetter(c));
    if (!starts && (first || !utf8::IsWordChar(c))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

constexpr MethodEntry kStringMethods[] = {
    {"capitalize", "", ChangeString<python::Capitalize>},
    {"casefold", "", ChangeString<python::CaseFold>},
    {"center", "/!width,fillchar", Justify<Side::kBoth>},
    {"count", "/!sub,start,end", CountParts},
    {"endswith", "/!suffix,start,end", HasAffix<false>},
    {"expandtabs", "tabsize", ExpandTabs},
    {"find", "/!sub,start,end", Find<false>},
    {"format", "*", FormatString},
    {"format_map", "/!mapping", FormatMap},
    {"index", "/!sub,start,end", FindOrRefuse<false>},
    {"isalnum", "", AllCharacters<IsLetterOrNumber>},
    {"isalpha", "", AllCharacters<python::IsLetter>},
    {"isascii", "", AllCharacters<IsAscii, true>},
    {"isdecimal", "", AllCharacters<python::IsDecimal>},
    {"isdigit", "", AllCharacters<python::IsDigit>},
    {"isidentifier", "", IsIdentifier},
    {"islower", "", PassesTest<kLower>},
    {"isnumeric", "", AllCharacters<python::IsNumber>},
    {"isprintable", "", AllCharacters<python::IsPrintable, true>},
    {"isspace", "", AllCharacters<python::IsSpace>},
    {"istitle", "", IsTitleText},
    {"isupper", "", PassesTest<kUpper>},
    {"join", "/!iterable", JoinItems},
    {"ljust", "/!width,fillchar", Justify<Side::kLeft>},
    {"lower", "", ChangeString<python::Lower>},
    {"lstrip", "/chars", Strip<true, false>},
    {"partition", "/!sep", Partition<false>},
    {"removeprefix", "/!prefix", RemoveAffix<true>},
    {"removesuffix", "/!suffix", RemoveAffix<false>},
    {"replace", "/!old,!new,count", Replace},
    {"rfind", "/!sub,start,end", Find<true>},
    {"rindex", "/!sub,start,end", FindOrRefuse<true>},
    {"rjust", "/!width,fillchar", Justify<Side::kRight>},
    {"rpartition", "/!sep", Partition<true>},
    {"rsplit", "sep,maxsplit", Split<true>},
    {"rstrip", "/chars", Strip<false, true>},
    {"split", "sep,maxsplit", Split<false>},
    {"splitlines", "keepends", SplitLines},
    {"startswith", "/!prefix,start,end", HasAffix<true>},
    {"strip", "/chars", Strip<true, true>},
    {"swapcase", "", ChangeString<python::SwapCase>},
    {"title", "", ChangeString<python::Title>},
    {"upper", "", ChangeString<python::Upper>},
    {"zfill", "/!width", ZeroFill}};

}  // namespace

const MethodEntry* FindStringMethod(std::string_view name) {
  return FindIn(kStringMethods, name);
}

}  // namespace weft::jinja
