// Filters of chat templates on text and single values.
#include <charconv>
#include <cmath>

#include "text/jinja/json.h"
#include "text/jinja/library.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

Result<std::string> TextOf(const Value& operand) {
  if (operand.IsString()) return operand.string();
  return ToText(operand);
}

template <std::string (*kChange)(std::string_view)>
Result<Value> ChangeText(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(operand));
  return evaluator.MakeString(kChange(text));
}

// The first letter of each word, as Jinja's filter finds words.
std::string TitleWords(std::string_view text) {
  std::string title;
  bool starts_word = true;
  for (size_t at = 0; at < text.size();) {
    const size_t length = utf8::LengthOf(text[at]);
    const std::string_view character = text.substr(at, length);
    title += starts_word ? utf8::Upper(character) : utf8::Lower(character);
    size_t next = at;
    starts_word = utf8::IsWhiteSpace(utf8::Next(text, next)) ||
                  std::string_view("-({[<").find(text[at]) != std::string_view::npos;
    at += length;
  }
  return title;
}

Result<Value> Trim(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(operand));
  const Value* characters = arguments.Get(0, "chars");
  const std::string* set =
      characters != nullptr && characters->IsString() ? &characters->string() : nullptr;
  return evaluator.MakeString(StripText(text, true, true, set));
}

Result<Value> Text(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  if (operand.IsString()) return operand;
  ASSIGN_OR_RETURN(std::string text, ToText(operand));
  return evaluator.MakeString(std::move(text));
}

Result<Value> Safe(Evaluator&, const Value& operand, const CallArguments&) {
  return operand;
}

Result<Value> Escape(Evaluator& evaluator, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(operand));
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&#34;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped.push_back(c);
    }
  }
  return evaluator.MakeString(std::move(escaped));
}

Result<Value> ToJsonFilter(Evaluator& evaluator, const Value& operand,
                           const CallArguments& arguments) {
  ToJsonOptions options;
  ASSIGN_OR_RETURN(const int64_t indent,
                   IntegerArgument(arguments, 0, "indent", 0, "The filter 'tojson'"));
  if (indent < 0 || indent > 64) return Refuse("The filter 'tojson' indents by 0 to 64 spaces.");
  options.indent = static_cast<int>(indent);
  options.ensure_ascii = FlagArgument(arguments, SIZE_MAX, "ensure_ascii", false);
  options.sort_keys = FlagArgument(arguments, SIZE_MAX, "sort_keys", false);
  if (const Value* separators = arguments.Named("separators")) {
    if (!separators->IsNone()) {
      if (!separators->IsArray() || separators->items().size() != 2 ||
          !separators->items()[0].IsString() || !separators->items()[1].IsString()) {
        return Refuse("The filter 'tojson' needs two strings as separators.");
      }
      options.separators = {separators->items()[0].string(), separators->items()[1].string()};
    }
  }
  ASSIGN_OR_RETURN(std::string text, ToJson(operand, options));
  return evaluator.MakeString(std::move(text));
}

Result<Value> Default(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  const bool also_false = FlagArgument(arguments, 1, "boolean", false);
  if (!operand.IsUndefined() && !(also_false && !operand.Truthy())) return operand;
  const Value* fallback = arguments.Get(0, "default_value");
  if (fallback == nullptr) return evaluator.MakeString("");
  return *fallback;
}

Result<Value> Replace(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(operand));
  ASSIGN_OR_RETURN(const std::string from,
                   TextArgument(arguments, 0, "old", "The filter 'replace'"));
  ASSIGN_OR_RETURN(const std::string to, TextArgument(arguments, 1, "new", "The filter 'replace'"));
  ASSIGN_OR_RETURN(const int64_t count,
                   IntegerArgument(arguments, 2, "count", -1, "The filter 'replace'"));
  ASSIGN_OR_RETURN(std::string replaced, ReplaceAll(evaluator, text, from, to, count));
  return evaluator.MakeString(std::move(replaced));
}

Result<Value> Indent(Evaluator& evaluator, const Value& operand, const CallArguments& arguments) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(operand));
  std::string padding(4, ' ');
  if (const Value* width = arguments.Get(0, "width")) {
    if (width->IsString()) {
      padding = width->string();
    } else {
      ASSIGN_OR_RETURN(const int64_t spaces,
                       IntegerArgument(arguments, 0, "width", 4, "The filter 'indent'"));
      if (spaces < 0 || spaces > 1024) return Refuse("The filter 'indent' takes 0 to 1024 spaces.");
      padding.assign(static_cast<size_t>(spaces), ' ');
    }
  }
  const bool first = FlagArgument(arguments, 1, "first", false);
  const bool blank = FlagArgument(arguments, 2, "blank", false);
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    if ((begin != 0 || first) && (end != begin || blank)) {
      TRY(evaluator.Charge(1 + padding.size() / 16));
      out += padding;
    }
    out.append(text, begin, end - begin);
    if (end == text.size()) break;
    out.push_back('\n');
    begin = end + 1;
  }
  return evaluator.MakeString(std::move(out));
}

// The number that `text` starts with, after white space.
template <typename T>
std::optional<T> LeadingNumber(const std::string& text) {
  std::string trimmed = StripText(text, true, true);
  if (trimmed.starts_with('+')) trimmed.erase(0, 1);
  T value{};
  const auto end = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (end.ec != std::errc() || end.ptr == trimmed.data()) return std::nullopt;
  return value;
}

Result<Value> Int(Evaluator&, const Value& operand, const CallArguments& arguments) {
  if (operand.IsNumeric()) return Value::Integer(operand.AsInteger());
  if (operand.IsString()) {
    if (const auto value = LeadingNumber<int64_t>(operand.string())) return Value::Integer(*value);
  }
  const Value* fallback = arguments.Get(0, "default");
  return fallback == nullptr ? Value::Integer(0) : *fallback;
}

Result<Value> Float(Evaluator&, const Value& operand, const CallArguments& arguments) {
  if (operand.IsNumeric()) return Value::Float(operand.AsDouble());
  if (operand.IsString()) {
    if (const auto value = LeadingNumber<double>(operand.string())) return Value::Float(*value);
  }
  const Value* fallback = arguments.Get(0, "default");
  return fallback == nullptr ? Value::Float(0) : *fallback;
}

Result<Value> Bool(Evaluator&, const Value& operand, const CallArguments&) {
  return Value::Bool(operand.Truthy());
}

Result<Value> Abs(Evaluator&, const Value& operand, const CallArguments&) {
  if (!operand.IsNumeric()) {
    return Refuse("The filter 'abs' needs a number, not " + std::string(operand.KindName()) + ".");
  }
  if (operand.Is(ValueKind::kFloat)) return Value::Float(std::fabs(operand.real()));
  const int64_t value = operand.AsInteger();
  if (value == INT64_MIN) return Refuse("The chat template computes an integer beyond 64 bits.");
  return Value::Integer(value < 0 ? -value : value);
}

Result<Value> Round(Evaluator&, const Value& operand, const CallArguments& arguments) {
  if (!operand.IsNumeric()) {
    return Refuse("The filter 'round' needs a number, not " + std::string(operand.KindName()) +
                  ".");
  }
  ASSIGN_OR_RETURN(const int64_t digits,
                   IntegerArgument(arguments, 0, "precision", 0, "The filter 'round'"));
  if (digits < -15 || digits > 15) return Refuse("The filter 'round' takes -15 to 15 digits.");
  const Value* method = arguments.Get(1, "method");
  const std::string how = method != nullptr && method->IsString() ? method->string() : "common";
  const double scale = std::pow(10.0, static_cast<double>(digits));
  const double scaled = operand.AsDouble() * scale;
  // Python rounds halves to even; nearbyint does in the default mode.
  const double rounded = how == "ceil"    ? std::ceil(scaled)
                         : how == "floor" ? std::floor(scaled)
                                          : std::nearbyint(scaled);
  return Value::Float(rounded / scale);
}

Result<Value> WordCount(Evaluator&, const Value& operand, const CallArguments&) {
  ASSIGN_OR_RETURN(const std::string text, TextOf(operand));
  int64_t count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const bool word = utf8::IsWordChar(utf8::Next(text, at));
    count += word && !in_word;
    in_word = word;
  }
  return Value::Integer(count);
}

constexpr std::pair<std::string_view, FilterFunction> kFilters[] = {
    {"abs", Abs},
    {"bool", Bool},
    {"capitalize", ChangeText<Capitalize>},
    {"d", Default},
    {"default", Default},
    {"e", Escape},
    {"escape", Escape},
    {"float", Float},
    {"indent", Indent},
    {"int", Int},
    {"lower", ChangeText<utf8::Lower>},
    {"replace", Replace},
    {"round", Round},
    {"safe", Safe},
    {"string", Text},
    {"title", ChangeText<TitleWords>},
    {"tojson", ToJsonFilter},
    {"trim", Trim},
    {"upper", ChangeText<utf8::Upper>},
    {"wordcount", WordCount}};

}  // namespace

FilterFunction FindTextFilter(std::string_view name) {
  for (const auto& [known, filter] : kFilters) {
    if (known == name) return filter;
  }
  return nullptr;
}

FilterFunction FindFilter(std::string_view name) {
  const FilterFunction filter = FindTextFilter(name);
  return filter != nullptr ? filter : FindListFilter(name);
}

}  // namespace weft::jinja
