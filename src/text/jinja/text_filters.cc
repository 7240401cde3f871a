// Filters of chat templates on text and single values.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "text/jinja/format.h"
#include "text/jinja/json.h"
#include "text/jinja/library.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

using ValueKind = Value::Kind;

template <std::string (*kChange)(std::string_view)>
Result<Value> ChangeText(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  return evaluator.MakeString(ChangedInParts(text, kChange));
}

// The first letter of each word, as Jinja's filter finds words: behind white space and -({[<.
Result<Value> Title(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  const std::string_view bytes = text.bytes();
  const auto separates = [&](size_t at) {
    size_t next = at;
    return python::IsSpace(utf8::Next(bytes, next)) ||
           std::string_view("-({[<").find(bytes[at]) != std::string_view::npos;
  };
  Text title;
  for (size_t at = 0; at < bytes.size();) {
    size_t end = at + utf8::LengthOf(bytes[at]);
    if (separates(at)) {
      title.AppendPart(text, at, end);
    } else {
      const size_t first_end = end;
      while (end < bytes.size() && !separates(end)) end += utf8::LengthOf(bytes[end]);
      const auto change = [&](size_t from, size_t to, auto how) {
        title.Append(ChangedInParts(text.Part(from, to), how));
      };
      change(at, first_end, python::Upper);
      change(first_end, end, python::Lower);
    }
    at = end;
  }
  return evaluator.MakeString(std::move(title));
}

Result<Value> Trim(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  if (!IsGiven(given[0])) return evaluator.MakeString(StripText(text, true, true));
  ASSIGN_OR_RETURN(const Text characters, TextArgument(given[0], "The filter 'trim'"));
  return evaluator.MakeString(StripText(text, true, true, &characters.bytes()));
}

Result<Value> ToString(Evaluator& evaluator, const Value& operand, const Given&) {
  if (operand.IsString()) return operand;
  ASSIGN_OR_RETURN(Text text, ToText(operand));
  return evaluator.MakeString(std::move(text));
}

// transformers' own filter, which takes what json.dumps takes.
Result<Value> ToJsonFilter(Evaluator& evaluator, const Value& operand, const Given& given) {
  ToJsonOptions options;
  options.ensure_ascii = FlagArgument(given[0], false);
  if (IsGiven(given[1])) {
    if (given[1]->IsString()) {
      options.indent = given[1]->string();
    } else {
      ASSIGN_OR_RETURN(const int64_t indent,
                       IntegerArgument(given[1], 0, "The indent of the filter 'tojson'"));
      if (indent > 64) return Refuse("The filter 'tojson' indents by at most 64 spaces.");
      options.indent = std::string(static_cast<size_t>(std::max<int64_t>(indent, 0)), ' ');
    }
  }
  if (IsGiven(given[2])) {
    ASSIGN_OR_RETURN(const std::vector<Value> separators, IterableItems(evaluator, *given[2]));
    if (separators.size() != 2 || !separators[0].IsString() || !separators[1].IsString()) {
      return Refuse("The filter 'tojson' needs two strings as separators.");
    }
    options.separators = {separators[0].text(), separators[1].text()};
  }
  options.sort_keys = FlagArgument(given[3], false);
  ASSIGN_OR_RETURN(Text text, ToJson(operand, options));
  return evaluator.MakeString(std::move(text));
}

Result<Value> Default(Evaluator& evaluator, const Value& operand, const Given& given) {
  const bool also_false = FlagArgument(given[1], false);
  if (!operand.IsUndefined() && !(also_false && !operand.Truthy())) return operand;
  return given[0] == nullptr ? evaluator.MakeString("") : *given[0];
}

Result<Value> ReplaceFilter(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  ASSIGN_OR_RETURN(const Text from, ToText(*given[0]));
  ASSIGN_OR_RETURN(const Text to, ToText(*given[1]));
  ASSIGN_OR_RETURN(const int64_t count,
                   IntegerArgument(given[2], -1, "The filter 'replace'", true));
  ASSIGN_OR_RETURN(Text replaced, ReplaceAll(evaluator, text, from.bytes(), to, count));
  return evaluator.MakeString(std::move(replaced));
}

// Width as spaces or as a text of its own.
Result<Text> Padding(const Value* width) {
  if (width != nullptr && width->IsString()) return width->text();
  ASSIGN_OR_RETURN(const int64_t spaces, IntegerArgument(width, 4, "The filter 'indent'"));
  if (spaces > 1024) return Refuse("The filter 'indent' takes at most 1024 spaces.");
  return Text(std::string(static_cast<size_t>(std::max<int64_t>(spaces, 0)), ' '));
}

Result<Value> Indent(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(Text text, TextArgument(&operand, "The filter 'indent'"));
  ASSIGN_OR_RETURN(const Text padding, Padding(given[0]));
  const bool first = FlagArgument(given[1], false);
  const bool blank = FlagArgument(given[2], false);
  // Jinja's own quirk: with a newline more than the text has, one at its end is kept.
  text.Append("\n");
  const std::vector<Text> lines = LinesOf(text, false);
  Text out;
  if (first) out.Append(padding);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      TRY(evaluator.Charge(1 + padding.size() / 16));
      out.Append("\n");
      if (blank || !lines[i].empty()) out.Append(padding);
    }
    out.Append(lines[i]);
  }
  return evaluator.MakeString(std::move(out));
}

Error NoInteger() {
  return Refuse("The filter 'int' of the chat template gets a number beyond 128 bits.");
}

Result<Value> Int(Evaluator&, const Value& operand, const Given& given) {
  if (operand.IsUndefined()) return Refuse("The filter 'int' gets an undefined value.");
  if (operand.IsWhole()) return Value::Integer(operand.AsInteger());
  ASSIGN_OR_RETURN(const int64_t base, IntegerArgument(given[1], 10, "The filter 'int'"));
  const Value fallback = given[0] == nullptr ? Value::Integer(0) : *given[0];
  std::optional<double> real;
  if (operand.Is(ValueKind::kFloat)) real = operand.real();
  if (operand.IsString()) {
    if (const auto value = ParseInteger(operand.string(), static_cast<int>(base))) {
      return Value::Integer(*value);
    }
    const std::string digits = AsciiDigits(operand.string());
    const bool whole = !digits.empty() && digits.find_first_not_of("+-0123456789_") == digits.npos;
    if (whole && digits.size() > 38 && base == 10) return NoInteger();
    real = python::ParseFloat(operand.string());
  }
  if (!real || std::isnan(*real)) return fallback;
  if (const auto value = IntegerOf(*real)) return Value::Integer(*value);
  return operand.IsString() && std::isinf(*real) ? Result<Value>(fallback) : NoInteger();
}

Result<Value> Float(Evaluator&, const Value& operand, const Given& given) {
  if (operand.IsUndefined()) return Refuse("The filter 'float' gets an undefined value.");
  if (operand.IsNumeric()) return Value::Float(operand.AsDouble());
  if (operand.IsString()) {
    if (const auto value = python::ParseFloat(operand.string())) return Value::Float(*value);
  }
  return given[0] == nullptr ? Value::Float(0) : *given[0];
}

// @huggingface/jinja has it, Jinja has not.
Result<Value> Bool(Evaluator&, const Value& operand, const Given&) {
  return Value::Bool(operand.Truthy());
}

Result<Value> Abs(Evaluator&, const Value& operand, const Given&) {
  if (!operand.IsNumeric()) {
    return Refuse("The filter 'abs' needs a number, not " + std::string(operand.KindName()) + ".");
  }
  if (operand.Is(ValueKind::kFloat)) return Value::Float(std::fabs(operand.real()));
  const Int128 value = operand.AsInteger();
  if (value == kMinInteger) return NoInteger();
  return Value::Integer(value < 0 ? -value : value);
}

// To a multiple of 10^digits, halves to the even one.
Result<Value> RoundInteger(Int128 value, int64_t digits) {
  if (digits >= 0) return Value::Integer(value);
  if (digits < -38) return Value::Integer(0);
  Int128 unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  const Int128 below = FloorDivide(value, unit);
  const Int128 rest = FloorModulo(value, unit);
  const bool up = rest > unit - rest || (rest == unit - rest && FloorModulo(below, 2) == 1);
  const auto rounded = MultiplyIntegers(below + (up ? 1 : 0), unit);
  if (!rounded) return NoInteger();
  return Value::Integer(*rounded);
}

Result<Value> RoundFilter(Evaluator& evaluator, const Value& operand, const Given& given) {
  if (!operand.IsNumeric()) {
    return Refuse("The filter 'round' needs a number, not " + std::string(operand.KindName()) +
                  ".");
  }
  ASSIGN_OR_RETURN(const int64_t digits, IntegerArgument(given[0], 0, "The filter 'round'"));
  if (digits < -300 || digits > 300) return Refuse("The filter 'round' takes -300 to 300 digits.");
  Text method("common");
  if (given[1] != nullptr) {
    ASSIGN_OR_RETURN(method, TextArgument(given[1], "The method of the filter 'round'"));
  }
  if (method.bytes() == "common") {
    if (operand.IsWhole()) return RoundInteger(operand.AsInteger(), digits);
    return Value::Float(python::Round(operand.real(), static_cast<int>(digits)));
  }
  if (method.bytes() != "ceil" && method.bytes() != "floor") {
    return Refuse("The filter 'round' knows the methods common, ceil and floor, not '" +
                  method.bytes() + "'.");
  }
  ASSIGN_OR_RETURN(const Value scale,
                   BinaryOperation(evaluator, "**", Value::Integer(10), Value::Integer(digits)));
  ASSIGN_OR_RETURN(const Value scaled, BinaryOperation(evaluator, "*", operand, scale));
  if (scaled.IsWhole()) return BinaryOperation(evaluator, "/", scaled, scale);
  const double real = scaled.AsDouble();
  const double whole = method.bytes() == "ceil" ? std::ceil(real) : std::floor(real);
  return Value::Float(whole / scale.AsDouble());
}

Result<Value> WordCount(Evaluator&, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(const Text text, ToText(operand));
  int64_t count = 0;
  bool in_word = false;
  for (size_t at = 0; at < text.size();) {
    const uint32_t c = utf8::Next(text.bytes(), at);
    const bool word = c == '_' || python::IsLetter(c) || python::IsNumber(c);
    count += word && !in_word;
    in_word = word;
  }
  return Value::Integer(count);
}

Result<Value> Center(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(Text text, ToText(operand));
  const Value width = given[0] == nullptr ? Value::Integer(80) : *given[0];
  ASSIGN_OR_RETURN(const Value self, evaluator.MakeString(std::move(text)));
  CallArguments arguments;
  arguments.positional.push_back(width);
  const MethodEntry* center = FindStringMethod("center");
  ASSIGN_OR_RETURN(const Given bound, BindArguments("center", center->parameters, arguments));
  return center->run(evaluator, self, bound);
}

Result<Value> FormatFilter(Evaluator& evaluator, const Value& operand, const Given& given) {
  ASSIGN_OR_RETURN(const Text format, ToText(operand));
  const CallArguments& all = given.all();
  if (!all.positional.empty() && !all.named.empty()) {
    return Refuse("The filter 'format' takes values by position or by name, not both.");
  }
  Value values;
  if (all.named.empty()) {
    ASSIGN_OR_RETURN(values, evaluator.MakeArray(all.positional, ArrayData::Form::kTuple));
  } else {
    auto object = std::make_shared<ObjectData>();
    for (const auto& [name, value] : all.named) object->Set(name, value);
    ASSIGN_OR_RETURN(values, evaluator.MakeObject(std::move(object)));
  }
  ASSIGN_OR_RETURN(Text text, FormatPercent(evaluator, format, values));
  return evaluator.MakeString(std::move(text));
}

Result<Value> Truncate(Evaluator& evaluator, const Value& operand, const Given& given) {
  constexpr std::string_view kName = "The filter 'truncate'";
  ASSIGN_OR_RETURN(const int64_t length, IntegerArgument(given[0], 255, kName));
  const bool kill_words = FlagArgument(given[1], false);
  Text end("...");
  if (given[2] != nullptr) {
    ASSIGN_OR_RETURN(end, TextArgument(given[2], kName));
  }
  ASSIGN_OR_RETURN(const int64_t leeway, IntegerArgument(given[3], 5, kName, true));
  const auto end_length = static_cast<int64_t>(utf8::CountCodePoints(end.bytes()));
  if (length < end_length || leeway < 0) {
    return Refuse(
        "The filter 'truncate' needs a length of at least that of its end, and a leeway "
        "of at least 0.");
  }
  ASSIGN_OR_RETURN(const Value whole, evaluator.Filter("length", operand, {}));
  const int64_t count = Clamped(whole.AsInteger());
  if (count <= leeway || count - leeway <= length) return operand;
  ASSIGN_OR_RETURN(const Text text, TextArgument(&operand, kName));
  const std::string_view bytes = text.bytes();
  size_t cut = 0;
  for (int64_t i = 0; i < length - end_length; ++i) cut += utf8::LengthOf(bytes[cut]);
  if (!kill_words) {
    const size_t space = cut == 0 ? std::string_view::npos : bytes.substr(0, cut).rfind(' ');
    if (space != std::string_view::npos) cut = space;
  }
  Text shortened = text.Part(0, cut);
  shortened.set_markup(false);
  shortened.Append(end);
  return evaluator.MakeString(std::move(shortened));
}

Result<Value> FileSizeFormat(Evaluator& evaluator, const Value& operand, const Given& given) {
  std::optional<double> size;
  if (operand.IsNumeric()) size = operand.AsDouble();
  if (operand.IsString()) size = python::ParseFloat(operand.string());
  if (!size || !std::isfinite(*size)) {
    return Refuse("The filter 'filesizeformat' needs a number, not " +
                  std::string(operand.KindName()) + ".");
  }
  const bool binary = FlagArgument(given[0], false);
  const double base = binary ? 1024 : 1000;
  if (*size == 1) return evaluator.MakeString("1 Byte");
  if (*size < base) {
    return evaluator.MakeString(DigitsOf(IntegerOf(*size).value_or(0)) + " Bytes");
  }
  constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base;
  size_t at = 0;
  for (unit *= base; at + 1 < kUnits.size() && *size >= unit; unit *= base) ++at;
  char text[64];
  const char letter = binary && at == 0 ? 'K' : kUnits[at];
  std::snprintf(text, sizeof(text), "%.1f %c%s", base * *size / unit, letter, binary ? "iB" : "B");
  return evaluator.MakeString(std::string(text));
}

// One line, as pprint writes what is not over 80 characters. Dictionaries are in order of keys.
Result<Value> Sorted(Evaluator& evaluator, const Value& value, int levels_left) {
  if (levels_left == 0) return Refuse("The filter 'pprint' gets a value that is nested too deep.");
  if (value.IsArray()) {
    std::vector<Value> items;
    for (const Value& item : value.items()) {
      ASSIGN_OR_RETURN(Value sorted, Sorted(evaluator, item, levels_left - 1));
      items.push_back(std::move(sorted));
    }
    ASSIGN_OR_RETURN(Value made, evaluator.MakeArray(std::move(items), value.array()->form));
    made.array()->range_text = value.array()->range_text;
    return made;
  }
  if (!value.Is(ValueKind::kObject)) return value;
  std::vector<std::pair<std::string, Value>> entries = value.object()->entries();
  std::ranges::stable_sort(entries, [&](const auto& a, const auto& b) {
    const Value left = KeyValue(*value.object(), a.first);
    const Value right = KeyValue(*value.object(), b.first);
    uint64_t work = 0;
    const auto order = Compare(left, right, work);
    return order.ok() ? *order < 0 : left.kind() < right.kind();
  });
  auto object = std::make_shared<ObjectData>();
  object->has_quoted_keys = value.object()->has_quoted_keys;
  for (const auto& [key, field] : entries) {
    ASSIGN_OR_RETURN(Value sorted, Sorted(evaluator, field, levels_left - 1));
    object->Set(key, std::move(sorted));
  }
  return evaluator.MakeObject(std::move(object));
}

Result<Value> PrettyPrint(Evaluator& evaluator, const Value& operand, const Given&) {
  ASSIGN_OR_RETURN(const Value sorted, Sorted(evaluator, operand, kMaxValueDepth));
  ASSIGN_OR_RETURN(Text text, ToRepr(sorted));
  if (utf8::CountCodePoints(text.bytes()) > 80) {
    return Refuse(
        "The filter 'pprint' of the chat template gets a value of more than one line, "
        "which weft cannot print so; use 'tojson'.");
  }
  return evaluator.MakeString(std::move(text));
}

constexpr FilterEntry kFilters[] = {
    {"abs", "", Abs},
    {"bool", "", Bool},
    {"capitalize", "", ChangeText<python::Capitalize>},
    {"center", "width", Center},
    {"d", "default_value,boolean", Default},
    {"default", "default_value,boolean", Default},
    {"filesizeformat", "binary", FileSizeFormat},
    {"float", "default", Float},
    {"format", "*", FormatFilter},
    {"indent", "width,first,blank", Indent},
    {"int", "default,base", Int},
    {"lower", "", ChangeText<python::Lower>},
    {"pprint", "", PrettyPrint},
    {"replace", "!old,!new,count", ReplaceFilter},
    {"round", "precision,method", RoundFilter},
    {"string", "", ToString},
    {"title", "", Title},
    {"tojson", "ensure_ascii,indent,separators,sort_keys", ToJsonFilter},
    {"trim", "chars", Trim},
    {"truncate", "length,killwords,end,leeway", Truncate},
    {"upper", "", ChangeText<python::Upper>},
    {"wordcount", "", WordCount}};

}  // namespace

const FilterEntry* FindTextFilter(std::string_view name) {
  return FindIn(kFilters, name);
}

const FilterEntry* FindFilter(std::string_view name) {
  if (const FilterEntry* filter = FindTextFilter(name)) return filter;
  if (const FilterEntry* filter = FindListFilter(name)) return filter;
  return FindMarkupFilter(name);
}

}  // namespace weft::jinja
