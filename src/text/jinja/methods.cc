// Methods of values in chat templates: the ones of Python's str, list and dict that templates use.
#include <algorithm>

#include "text/jinja/library.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

// ---- strings ----

template <std::string (*kChange)(std::string_view)>
Result<Value> Change(Evaluator& evaluator, const Value& self, const CallArguments&) {
  return evaluator.MakeString(kChange(self.string()));
}

// Python's str.title: the first letter of every run of letters.
std::string TitleRuns(std::string_view text) {
  std::string title;
  bool in_run = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const uint32_t c = utf8::Next(text, at);
    const std::string_view character = text.substr(begin, at - begin);
    title += in_run ? utf8::Lower(character) : utf8::Upper(character);
    in_run = utf8::IsWordChar(c) && !utf8::IsNumeric(c) && c != '_';
  }
  return title;
}

template <bool kLeft, bool kRight>
Result<Value> Strip(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  const Value* characters = arguments.Get(0, "chars");
  if (characters != nullptr && characters->IsString()) {
    TRY(evaluator.Charge(self.string().size() * (1 + characters->string().size() / 16)));
    return evaluator.MakeString(StripText(self.string(), kLeft, kRight, &characters->string()));
  }
  return evaluator.MakeString(StripText(self.string(), kLeft, kRight));
}

// The methods startswith and endswith take a string or several.
template <bool kAtStart>
Result<Value> HasAffix(Evaluator&, const Value& self, const CallArguments& arguments) {
  const Value* affix = arguments.Get(0, "prefix");
  const std::string_view text = self.string();
  const auto matches = [&](const Value& candidate) {
    if (!candidate.IsString()) return false;
    return kAtStart ? text.starts_with(candidate.string()) : text.ends_with(candidate.string());
  };
  if (affix != nullptr && affix->IsArray()) {
    return Value::Bool(std::any_of(affix->items().begin(), affix->items().end(), matches));
  }
  if (affix == nullptr || !affix->IsString()) {
    return Refuse("startswith() and endswith() of the chat template need a string.");
  }
  return Value::Bool(matches(*affix));
}

template <bool kAtStart>
Result<Value> RemoveAffix(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string affix, TextArgument(arguments, 0, "prefix", "removeprefix()"));
  std::string_view text = self.string();
  if (kAtStart && text.starts_with(affix)) text.remove_prefix(affix.size());
  if (!kAtStart && text.ends_with(affix)) text.remove_suffix(affix.size());
  return evaluator.MakeString(std::string(text));
}

// The words of `text`; after `most` splits the rest is one piece.
std::vector<std::string_view> SplitWords(std::string_view text, int64_t most) {
  std::vector<std::string_view> parts;
  size_t at = 0;
  const auto space_at = [&](size_t i) {
    size_t next = i;
    return utf8::IsWhiteSpace(utf8::Next(text, next));
  };
  while (true) {
    while (at < text.size() && space_at(at)) at += utf8::LengthOf(text[at]);
    if (at >= text.size()) return parts;
    size_t end = at;
    if (most >= 0 && static_cast<int64_t>(parts.size()) == most) {
      end = text.size();
    } else {
      while (end < text.size() && !space_at(end)) end += utf8::LengthOf(text[end]);
    }
    parts.push_back(text.substr(at, end - at));
    at = end;
  }
}

std::vector<std::string_view> SplitAt(std::string_view text, std::string_view separator,
                                      int64_t most, bool from_right) {
  std::vector<std::string_view> parts;
  while (most < 0 || static_cast<int64_t>(parts.size()) < most) {
    const size_t at = from_right ? text.rfind(separator) : text.find(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(from_right ? text.substr(at + separator.size()) : text.substr(0, at));
    text = from_right ? text.substr(0, at) : text.substr(at + separator.size());
  }
  parts.push_back(text);
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

template <bool kFromRight>
Result<Value> Split(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  const std::string& text = self.string();
  TRY(evaluator.Charge(text.size() / 4));
  const Value* separator = arguments.Get(0, "sep");
  ASSIGN_OR_RETURN(const int64_t most, IntegerArgument(arguments, 1, "maxsplit", -1, "split()"));
  std::vector<std::string_view> parts;
  if (separator == nullptr || separator->IsNone()) {
    if (kFromRight && most >= 0) return Refuse("rsplit() of the chat template needs a separator.");
    parts = SplitWords(text, most);
  } else if (!separator->IsString() || separator->string().empty()) {
    return Refuse(
        "split() of the chat template needs a separator that is a string, and not empty.");
  } else {
    parts = SplitAt(text, separator->string(), most, kFromRight);
  }
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.push_back(Value::String(std::string(part)));
  return evaluator.MakeArray(std::move(items));
}

Result<Value> SplitLines(Evaluator& evaluator, const Value& self, const CallArguments&) {
  std::vector<Value> lines;
  std::string_view text = self.string();
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of("\r\n"), text.size());
    lines.push_back(Value::String(std::string(text.substr(0, end))));
    if (end == text.size()) break;
    text.remove_prefix(text.substr(end).starts_with("\r\n") ? end + 2 : end + 1);
  }
  return evaluator.MakeArray(std::move(lines));
}

Result<Value> Replace(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string from, TextArgument(arguments, 0, "old", "replace()"));
  ASSIGN_OR_RETURN(const std::string to, TextArgument(arguments, 1, "new", "replace()"));
  ASSIGN_OR_RETURN(const int64_t count, IntegerArgument(arguments, 2, "count", -1, "replace()"));
  ASSIGN_OR_RETURN(std::string text, ReplaceAll(evaluator, self.string(), from, to, count));
  return evaluator.MakeString(std::move(text));
}

template <bool kFromRight>
Result<Value> Find(Evaluator&, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string part, TextArgument(arguments, 0, "sub", "find()"));
  const size_t at = kFromRight ? self.string().rfind(part) : self.string().find(part);
  if (at == std::string::npos) return Value::Integer(-1);
  return Value::Integer(
      static_cast<int64_t>(utf8::CountCodePoints(std::string_view(self.string()).substr(0, at))));
}

Result<Value> CountText(Evaluator&, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string part, TextArgument(arguments, 0, "sub", "count()"));
  if (part.empty()) return Refuse("count() of the chat template needs a text to look for.");
  int64_t count = 0;
  for (size_t at = self.string().find(part); at != std::string::npos;
       at = self.string().find(part, at + part.size())) {
    ++count;
  }
  return Value::Integer(count);
}

Result<Value> JoinItems(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.size() != 1)
    return Refuse("join() of the chat template needs an array.");
  return evaluator.Filter("join", arguments.positional[0], {{self}, {}});
}

template <bool (*kAllowed)(uint32_t)>
Result<Value> AllCharacters(Evaluator&, const Value& self, const CallArguments&) {
  const std::string& text = self.string();
  for (size_t at = 0; at < text.size();) {
    if (!kAllowed(utf8::Next(text, at))) return Value::Bool(false);
  }
  return Value::Bool(!text.empty());
}

bool IsLetter(uint32_t c) {
  return utf8::IsWordChar(c) && !utf8::IsNumeric(c) && c != '_';
}
bool IsLetterOrDigit(uint32_t c) {
  return IsLetter(c) || utf8::IsNumeric(c);
}

constexpr std::pair<std::string_view, MethodFunction> kStringMethods[] = {
    {"capitalize", Change<Capitalize>},
    {"count", CountText},
    {"endswith", HasAffix<false>},
    {"find", Find<false>},
    {"isalnum", AllCharacters<IsLetterOrDigit>},
    {"isalpha", AllCharacters<IsLetter>},
    {"isdigit", AllCharacters<utf8::IsNumeric>},
    {"isspace", AllCharacters<utf8::IsWhiteSpace>},
    {"join", JoinItems},
    {"lower", Change<utf8::Lower>},
    {"lstrip", Strip<true, false>},
    {"removeprefix", RemoveAffix<true>},
    {"removesuffix", RemoveAffix<false>},
    {"replace", Replace},
    {"rfind", Find<true>},
    {"rsplit", Split<true>},
    {"rstrip", Strip<false, true>},
    {"split", Split<false>},
    {"splitlines", SplitLines},
    {"startswith", HasAffix<true>},
    {"strip", Strip<true, true>},
    {"title", Change<TitleRuns>},
    {"upper", Change<utf8::Upper>}};

// ---- arrays ----

// A change of a container that is already part of others; what it holds may grow deeper than it
// was.
Status CheckedChange(Evaluator& evaluator, const Value& container, const Value& item) {
  TRY(evaluator.Charge(4));
  if (item.depth() + 1 > kMaxValueDepth) {
    return Refuse("The chat template nests values more than " + std::to_string(kMaxValueDepth) +
                  " levels deep.");
  }
  if (container.IsArray()) container.array()->depth = std::max(container.depth(), item.depth() + 1);
  evaluator.NoteChanged(container);
  return OkStatus();
}

Result<Value> Append(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.size() != 1)
    return Refuse("append() of the chat template needs one item.");
  TRY(CheckedChange(evaluator, self, arguments.positional[0]));
  self.array()->items.push_back(arguments.positional[0]);
  return Value::MakeNone();
}

Result<Value> Extend(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.size() != 1)
    return Refuse("extend() of the chat template needs an array.");
  ASSIGN_OR_RETURN(const auto items, IterableItems(evaluator, arguments.positional[0]));
  for (const Value& item : items) {
    TRY(CheckedChange(evaluator, self, item));
    self.array()->items.push_back(item);
  }
  return Value::MakeNone();
}

Result<Value> Insert(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.size() != 2)
    return Refuse("insert() of the chat template needs a place and an item.");
  ASSIGN_OR_RETURN(int64_t at, IntegerArgument(arguments, 0, "index", 0, "insert()"));
  auto& items = self.array()->items;
  const auto count = static_cast<int64_t>(items.size());
  at = std::clamp<int64_t>(at < 0 ? std::max(at, -count) + count : at, 0, count);
  TRY(CheckedChange(evaluator, self, arguments.positional[1]));
  TRY(evaluator.Charge(items.size()));
  items.insert(items.begin() + at, arguments.positional[1]);
  return Value::MakeNone();
}

Result<Value> PopItem(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(int64_t at, IntegerArgument(arguments, 0, "index", -1, "pop()"));
  auto& items = self.array()->items;
  const auto count = static_cast<int64_t>(items.size());
  if (at < 0 && at >= -count) at += count;
  if (at < 0 || at >= count) return Refuse("pop() of the chat template is outside of the array.");
  TRY(evaluator.Charge(items.size()));
  Value item = items[static_cast<size_t>(at)];
  items.erase(items.begin() + at);
  return item;
}

Result<Value> IndexOfItem(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.empty()) return Refuse("index() of the chat template needs an item.");
  for (size_t i = 0; i < self.items().size(); ++i) {
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(self.items()[i], arguments.positional[0]));
    if (same) return Value::Integer(static_cast<int64_t>(i));
  }
  return Refuse("index() of the chat template did not find its item.");
}

Result<Value> CountItems(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.empty()) return Refuse("count() of the chat template needs an item.");
  int64_t count = 0;
  for (const Value& item : self.items()) {
    ASSIGN_OR_RETURN(const bool same, evaluator.Same(item, arguments.positional[0]));
    count += same;
  }
  return Value::Integer(count);
}

Result<Value> CopyItems(Evaluator& evaluator, const Value& self, const CallArguments&) {
  return evaluator.MakeArray(self.items());
}

constexpr std::pair<std::string_view, MethodFunction> kArrayMethods[] = {
    {"append", Append},     {"copy", CopyItems}, {"count", CountItems}, {"extend", Extend},
    {"index", IndexOfItem}, {"insert", Insert},  {"pop", PopItem}};

// ---- objects ----

Result<Value> Get(Evaluator&, const Value& self, const CallArguments& arguments) {
  if (arguments.positional.empty()) return Refuse("get() of the chat template needs a key.");
  ASSIGN_OR_RETURN(const std::string key, ObjectKey(arguments.positional[0]));
  if (const Value* value = self.object()->Find(key)) return *value;
  const Value* fallback = arguments.Get(1, "default");
  return fallback == nullptr ? Value::MakeNone() : *fallback;
}

Result<Value> ItemPairs(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  (void)arguments;
  return evaluator.Filter("items", self, {});
}

Result<Value> Keys(Evaluator& evaluator, const Value& self, const CallArguments&) {
  ASSIGN_OR_RETURN(std::vector<Value> keys, IterableItems(evaluator, self));
  return evaluator.MakeArray(std::move(keys));
}

Result<Value> Values(Evaluator& evaluator, const Value& self, const CallArguments&) {
  std::vector<Value> values;
  for (const auto& [key, value] : self.object()->entries()) values.push_back(value);
  return evaluator.MakeArray(std::move(values));
}

Result<Value> DictSort(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  return evaluator.Filter("dictsort", self, arguments);
}

Result<Value> Update(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  std::vector<std::pair<std::string, Value>> fields = arguments.named;
  for (const Value& source : arguments.positional) {
    if (!source.Is(ValueKind::kObject))
      return Refuse("update() of the chat template needs an object.");
    const auto& entries = source.object()->entries();
    fields.insert(fields.end(), entries.begin(), entries.end());
  }
  for (const auto& [key, value] : fields) {
    TRY(CheckedChange(evaluator, self, value));
    self.object()->Set(key, value);
  }
  return Value::MakeNone();
}

Result<Value> SetDefault(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string key, TextArgument(arguments, 0, "key", "setdefault()"));
  if (const Value* value = self.object()->Find(key)) return *value;
  const Value* fallback = arguments.Get(1, "default");
  const Value value = fallback == nullptr ? Value::MakeNone() : *fallback;
  TRY(CheckedChange(evaluator, self, value));
  self.object()->Set(key, value);
  return value;
}

Result<Value> PopField(Evaluator& evaluator, const Value& self, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string key, TextArgument(arguments, 0, "key", "pop()"));
  const Value* found = self.object()->Find(key);
  const Value* fallback = arguments.Get(1, "default");
  if (found == nullptr && fallback == nullptr) {
    return Refuse("pop() of the chat template did not find the key " + key + ".");
  }
  Value value = found == nullptr ? *fallback : *found;
  TRY(evaluator.Charge(self.object()->count()));
  self.object()->Erase(key);
  return value;
}

Result<Value> CopyFields(Evaluator& evaluator, const Value& self, const CallArguments&) {
  return evaluator.MakeObject(std::make_shared<ObjectData>(*self.object()));
}

constexpr std::pair<std::string_view, MethodFunction> kObjectMethods[] = {
    {"copy", CopyFields},       {"dictsort", DictSort}, {"get", Get},
    {"items", ItemPairs},       {"keys", Keys},         {"pop", PopField},
    {"setdefault", SetDefault}, {"update", Update},     {"values", Values}};

template <size_t kCount>
MethodFunction FindIn(const std::pair<std::string_view, MethodFunction> (&methods)[kCount],
                      std::string_view name) {
  for (const auto& [known, method] : methods) {
    if (known == name) return method;
  }
  return nullptr;
}

}  // namespace

MethodFunction FindMethod(const Value& self, std::string_view name) {
  switch (self.kind()) {
    case ValueKind::kString:
      return FindIn(kStringMethods, name);
    case ValueKind::kArray:
      return FindIn(kArrayMethods, name);
    case ValueKind::kObject:
      return FindIn(kObjectMethods, name);
    default:
      return nullptr;
  }
}

}  // namespace weft::jinja
