#include "text/jinja/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "text/jinja/library.h"
#include "text/jinja/python_text.h"
#include "text/jinja/repr.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

constexpr size_t kMaxWidth = 100'000;

// What stands behind % or : in a format, in Python's terms.
struct Spec {
  std::string fill = " ";
  char align = 0;  // < > = ^
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  size_t width = 0;
  char grouping = 0;  // , or _
  std::optional<size_t> precision;
  char type = 0;
};

Error BadFormat(const std::string& what) {
  return Refuse("The chat template formats with " + what + ".");
}

Result<size_t> ReadNumber(std::string_view format, size_t& at) {
  size_t number = 0;
  while (at < format.size() && format[at] >= '0' && format[at] <= '9') {
    number = number * 10 + static_cast<size_t>(format[at++] - '0');
    if (number > kMaxWidth) return BadFormat("a width over " + std::to_string(kMaxWidth));
  }
  return number;
}

Text Padded(const Text& text, const Spec& spec, char align) {
  const size_t length = utf8::CountCodePoints(text.bytes());
  if (length >= spec.width) return text;
  const size_t missing = spec.width - length;
  const size_t left = align == '>' ? missing : (align == '^' ? missing / 2 : 0);
  Text padded;
  for (size_t i = 0; i < left; ++i) padded.Append(spec.fill);
  padded.Append(text);
  for (size_t i = left; i < missing; ++i) padded.Append(spec.fill);
  return padded;
}

// Puts `separator` between groups of digits, from the right.
std::string Grouped(const std::string& digits, char separator, size_t group) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % group == 0) grouped.push_back(separator);
    grouped.push_back(digits[i]);
  }
  return grouped;
}

// `digits` and what follows them ("." and so on), with sign, prefix, separators and padding.
Text NumberText(bool negative, std::string prefix, std::string digits, const std::string& rest,
                const Spec& spec) {
  std::string sign = negative ? "-" : (spec.sign == '-' ? "" : std::string(1, spec.sign));
  sign += prefix;
  const bool base_group =
      spec.type == 'b' || spec.type == 'o' || spec.type == 'x' || spec.type == 'X';
  const size_t group = base_group ? 4 : 3;
  const bool fills_zero = spec.align == '=' && spec.fill == "0";
  const auto written = [&] {
    return spec.grouping == 0 ? digits : Grouped(digits, spec.grouping, group);
  };
  if (fills_zero && spec.width > 0) {
    while (sign.size() + written().size() + rest.size() < spec.width) digits.insert(0, "0");
    std::string text = written();
    return Text(sign + text + rest);
  }
  const std::string number = written() + rest;
  if (spec.align == '=') {
    std::string padding;
    for (size_t i = sign.size() + number.size(); i < spec.width; ++i) padding += spec.fill;
    return Text(sign + padding + number);
  }
  return Padded(Text(sign + number), spec, spec.align == 0 ? '>' : spec.align);
}

Text FormatInteger(Int128 value, const Spec& spec) {
  const int base = spec.type == 'b'
                       ? 2
                       : (spec.type == 'o' ? 8 : (spec.type == 'x' || spec.type == 'X' ? 16 : 10));
  std::string digits = DigitsOf(value, base);
  if (value < 0) digits.erase(0, 1);
  std::string prefix;
  if (spec.alternate && base != 10) prefix = std::string("0") + spec.type;
  if (spec.type == 'X') digits = utf8::Upper(digits);
  if (spec.precision)
    digits.insert(
        0, std::string(*spec.precision > digits.size() ? *spec.precision - digits.size() : 0, '0'));
  return NumberText(value < 0, prefix, digits, "", spec);
}

std::string Printed(char type, bool alternate, size_t precision, double value) {
  const std::string form = std::string("%") + (alternate ? "#" : "") + ".*" + type;
  const int size = std::snprintf(nullptr, 0, form.c_str(), static_cast<int>(precision), value);
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), form.c_str(), static_cast<int>(precision), value);
  text.pop_back();
  return text;
}

// A float without a type prints as str does, with a precision as %g that keeps one digit behind
// the point.
std::string DefaultFloat(double size, const Spec& spec) {
  if (!spec.precision) return python::FloatText(size);
  const size_t precision = std::max<size_t>(*spec.precision, 1);
  // 'g' of precision p uses an exponent when the number has p digits or more before the point;
  // without a type Python does so from p - 1 on.
  const std::string probe = Printed('e', false, precision - 1, size);
  const size_t exponent_at = probe.find('e') + (probe[probe.find('e') + 1] == '+' ? 2 : 1);
  int exponent = 0;
  std::from_chars(probe.data() + exponent_at, probe.data() + probe.size(), exponent);
  if (exponent >= -4 && exponent < static_cast<int>(precision) - 1) {
    std::string text = Printed('g', false, precision, size);
    return text.find('.') == std::string::npos ? text + ".0" : text;
  }
  if (exponent < -4 || exponent >= static_cast<int>(precision) - 1) {
    std::string mantissa = probe.substr(0, probe.find('e'));
    if (mantissa.find('.') != std::string::npos) {
      while (mantissa.back() == '0') mantissa.pop_back();
      if (mantissa.back() == '.') mantissa.pop_back();
    }
    return mantissa + probe.substr(probe.find('e'));
  }
  return Printed('g', false, precision, size);
}

Text FormatFloat(double value, const Spec& spec) {
  const double size = std::fabs(value);
  const bool percent = spec.type == '%';
  char type = percent ? 'f' : (spec.type == 'n' ? 'g' : spec.type);
  std::string text;
  if (!std::isfinite(value)) {
    text = std::isnan(value) ? "nan" : "inf";
    if (type == 'F' || type == 'E' || type == 'G') text = utf8::Upper(text);
  } else if (type == 0) {
    text = DefaultFloat(size, spec);
  } else {
    size_t precision = spec.precision.value_or(6);
    if ((type == 'g' || type == 'G') && precision == 0) precision = 1;
    text = Printed(type, spec.alternate, precision, percent ? size * 100 : size);
  }
  if (percent) text += '%';
  const size_t end = std::min(text.find_first_not_of("0123456789"), text.size());
  return NumberText(std::signbit(value) && !std::isnan(value), "", text.substr(0, end),
                    text.substr(end), spec);
}

Text CutTo(const Text& text, const std::optional<size_t>& length) {
  if (!length) return text;
  size_t at = 0;
  for (size_t i = 0; i < *length && at < text.size(); ++i) at += utf8::LengthOf(text.bytes()[at]);
  return text.Part(0, at);
}

Result<Text> CharacterOf(const Value& value) {
  const Int128 code = value.IsWhole() ? value.AsInteger() : -1;
  if (value.IsString() && utf8::CountCodePoints(value.string()) == 1) return value.text();
  if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    return BadFormat("%c and what is no character");
  }
  Text character;
  std::string bytes;
  utf8::Append(bytes, static_cast<uint32_t>(code));
  return Text(bytes);
}

// repr with all but ASCII as escapes.
Result<Text> AsciiRepr(const Value& value) {
  ASSIGN_OR_RETURN(const Text repr, ToRepr(value));
  std::string ascii;
  for (size_t at = 0; at < repr.size();) {
    const uint32_t c = utf8::Next(repr.bytes(), at);
    char escape[12];
    const char* form =
        c < 0x80 ? "%c" : (c < 0x100 ? "\\x%02x" : (c < 0x10000 ? "\\u%04x" : "\\U%08x"));
    std::snprintf(escape, sizeof(escape), form, c);
    ascii += escape;
  }
  return Text(ascii, repr.has_quoted());
}

// ---- '%' ----

class PercentFormatter {
 public:
  PercentFormatter(Evaluator& evaluator, const Text& format, const Value& values)
      : evaluator_(evaluator), format_(format), values_(values) {
    is_row_ = values.IsArray() && values.array()->IsTuple();
  }

  Result<Text> Run() {
    const std::string& bytes = format_.bytes();
    for (size_t at = 0; at < bytes.size();) {
      const size_t percent = std::min(bytes.find('%', at), bytes.size());
      out_.AppendPart(format_, at, percent);
      if (percent == bytes.size()) break;
      at = percent + 1;
      TRY(Conversion(at));
      TRY(evaluator_.Charge(2));
    }
    const bool spare = is_row_ ? next_ < values_.items().size()
                               : next_ == 0 && !named_ && !values_.Is(Value::Kind::kObject) &&
                                     !values_.IsArray() && !values_.IsUndefined();
    if (spare) return BadFormat("more values than the format has places");
    out_.set_markup(format_.is_markup());
    return std::move(out_);
  }

 private:
  Result<Value> Next() {
    if (is_row_) {
      if (next_ >= values_.items().size())
        return BadFormat("fewer values than the format has places");
      return values_.items()[next_++];
    }
    if (next_++ > 0) return BadFormat("fewer values than the format has places");
    return values_;
  }

  Result<size_t> Width(size_t& at) {
    const std::string& bytes = format_.bytes();
    if (at < bytes.size() && bytes[at] == '*') {
      ++at;
      ASSIGN_OR_RETURN(const Value value, Next());
      if (!value.IsWhole()) return BadFormat("* and what is no integer");
      const Int128 width = value.AsInteger();
      if (width < -static_cast<Int128>(kMaxWidth) || width > static_cast<Int128>(kMaxWidth)) {
        return BadFormat("a width over " + std::to_string(kMaxWidth));
      }
      if (width < 0) left_ = true;
      return static_cast<size_t>(width < 0 ? -width : width);
    }
    return ReadNumber(bytes, at);
  }

  // From behind "%" to behind the conversion's letter.
  Status Conversion(size_t& at) {
    const std::string& bytes = format_.bytes();
    std::optional<Value> value;
    if (at < bytes.size() && bytes[at] == '(') {
      const size_t close = bytes.find(')', at);
      if (close == std::string::npos) return BadFormat("%( without )");
      if (!values_.Is(Value::Kind::kObject)) return BadFormat("%(name) and no object");
      const Value* field =
          values_.object()->Find(ObjectKeyOf(bytes.substr(at + 1, close - at - 1)));
      if (field == nullptr) return BadFormat("a name that the object has not");
      value = *field;
      named_ = true;
      at = close + 1;
    }
    Spec spec;
    left_ = false;
    for (; at < bytes.size() && std::string_view("-+ 0#").find(bytes[at]) != std::string_view::npos;
         ++at) {
      if (bytes[at] == '-') left_ = true;
      if (bytes[at] == '+') spec.sign = '+';
      if (bytes[at] == ' ' && spec.sign != '+') spec.sign = ' ';
      if (bytes[at] == '0') spec.zero = true;
      if (bytes[at] == '#') spec.alternate = true;
    }
    ASSIGN_OR_RETURN(spec.width, Width(at));
    if (at < bytes.size() && bytes[at] == '.') {
      ++at;
      ASSIGN_OR_RETURN(spec.precision, Width(at));
    }
    while (at < bytes.size() && std::string_view("hlL").find(bytes[at]) != std::string_view::npos)
      ++at;
    if (at >= bytes.size()) return BadFormat("a lone % at its end");
    spec.type = bytes[at++];
    spec.align = left_ ? '<' : '>';
    if (spec.type == '%') {
      out_.Append(Padded(Text("%"), spec, spec.align));
      return OkStatus();
    }
    if (!value) {
      ASSIGN_OR_RETURN(value, Next());
    }
    ASSIGN_OR_RETURN(const Text text, Formatted(*value, spec));
    out_.Append(text);
    return OkStatus();
  }

  Result<Text> Formatted(const Value& value, Spec spec) {
    switch (spec.type) {
      case 's': {
        ASSIGN_OR_RETURN(Text text, ToText(value));
        if (format_.is_markup() && !text.is_markup()) text = EscapeHtml(text);
        return Padded(CutTo(text, spec.precision), spec, spec.align);
      }
      case 'r': {
        ASSIGN_OR_RETURN(const Text text, ToRepr(value));
        return Padded(CutTo(text, spec.precision), spec, spec.align);
      }
      case 'a': {
        ASSIGN_OR_RETURN(const Text text, AsciiRepr(value));
        return Padded(CutTo(text, spec.precision), spec, spec.align);
      }
      case 'c': {
        ASSIGN_OR_RETURN(const Text text, CharacterOf(value));
        return Padded(text, spec, spec.align);
      }
      default:
        return FormattedNumber(value, spec);
    }
  }

  Result<Text> FormattedNumber(const Value& value, Spec spec) {
    const std::string_view integers = "diuoxX";
    const std::string_view floats = "eEfFgG";
    if (spec.zero && !left_) {
      spec.align = '=';
      spec.fill = "0";
    }
    if (integers.find(spec.type) != std::string_view::npos) {
      const bool decimal = spec.type == 'd' || spec.type == 'i' || spec.type == 'u';
      std::optional<Int128> whole;
      if (value.IsWhole()) whole = value.AsInteger();
      if (decimal && value.Is(Value::Kind::kFloat)) whole = IntegerOf(value.real());
      if (!whole)
        return BadFormat(std::string("%") + spec.type + " and " + std::string(value.KindName()));
      if (decimal) spec.type = 'd';
      return FormatInteger(*whole, spec);
    }
    if (floats.find(spec.type) == std::string_view::npos) {
      return BadFormat(std::string("the unknown conversion %") + spec.type);
    }
    if (!value.IsNumeric()) {
      return BadFormat(std::string("%") + spec.type + " and " + std::string(value.KindName()));
    }
    return FormatFloat(value.AsDouble(), spec);
  }

  Evaluator& evaluator_;
  const Text& format_;
  const Value& values_;
  bool is_row_ = false;
  bool left_ = false;
  bool named_ = false;
  size_t next_ = 0;
  Text out_;
};

// ---- str.format ----

constexpr bool IsAlign(char c) {
  return c == '<' || c == '>' || c == '=' || c == '^';
}

Result<Spec> ReadSpec(std::string_view text) {
  Spec spec;
  size_t at = 0;
  const size_t first = text.empty() ? 0 : utf8::LengthOf(text[0]);
  if (first < text.size() && IsAlign(text[first])) {
    spec.fill = std::string(text.substr(0, first));
    spec.align = text[first];
    at = first + 1;
  } else if (!text.empty() && IsAlign(text[0])) {
    spec.align = text[at++];
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' '))
    spec.sign = text[at++];
  if (at < text.size() && text[at] == 'z') return BadFormat("'z' in a format");
  if (at < text.size() && text[at] == '#') spec.alternate = ++at > 0;
  if (at < text.size() && text[at] == '0') {
    spec.zero = true;
    ++at;
    if (spec.align == 0) {
      spec.fill = "0";
      spec.align = '=';
    }
  }
  ASSIGN_OR_RETURN(spec.width, ReadNumber(text, at));
  if (at < text.size() && (text[at] == ',' || text[at] == '_')) spec.grouping = text[at++];
  if (at < text.size() && text[at] == '.') {
    const size_t digits = ++at;
    ASSIGN_OR_RETURN(spec.precision, ReadNumber(text, at));
    if (at == digits) return BadFormat("'.' without digits");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at < text.size()) return BadFormat("the format '" + std::string(text) + "'");
  return spec;
}

Result<Text> FormatNumberWith(const Value& value, Spec spec) {
  const std::string_view integers = "bcdoxXn";
  const std::string_view floats = "eEfFgG%n";
  if (value.IsWhole() && (spec.type == 0 || integers.find(spec.type) != std::string_view::npos)) {
    if (spec.precision) return BadFormat("a precision of an integer");
    if (spec.type == 'c') {
      ASSIGN_OR_RETURN(const Text text, CharacterOf(value));
      return Padded(text, spec, spec.align == 0 ? '<' : spec.align);
    }
    if (spec.type == 'n' || spec.type == 0) spec.type = 'd';
    return FormatInteger(value.AsInteger(), spec);
  }
  if (spec.type != 0 && floats.find(spec.type) == std::string_view::npos) {
    return BadFormat(std::string("the unknown type '") + spec.type + "' for a number");
  }
  return FormatFloat(value.AsDouble(), spec);
}

Result<Text> FormatWith(const Value& value, std::string_view text) {
  if (text.empty()) return ToText(value);
  ASSIGN_OR_RETURN(Spec spec, ReadSpec(text));
  // A boolean is an integer, but without a type in its format it prints as itself... as 1 or 0.
  if (value.IsNumeric()) return FormatNumberWith(value, spec);
  if (!value.IsString()) {
    return BadFormat("the format '" + std::string(text) + "' for " + std::string(value.KindName()));
  }
  if ((spec.type != 0 && spec.type != 's') || spec.align == '=' || spec.sign != '-' ||
      spec.alternate || spec.grouping != 0) {
    if (!(spec.zero && spec.align == '=' && spec.fill == "0")) {
      return BadFormat("the format '" + std::string(text) + "' for a string");
    }
    spec.align = '<';
  }
  return Padded(CutTo(value.text(), spec.precision), spec, spec.align == 0 ? '<' : spec.align);
}

class BraceFormatter {
 public:
  BraceFormatter(Evaluator& evaluator, const CallArguments& arguments)
      : evaluator_(evaluator), arguments_(arguments) {}

  Result<Text> Run(const Text& format, int levels_left) {
    if (levels_left == 0) return BadFormat("formats that are nested too deep");
    const std::string& bytes = format.bytes();
    Text out;
    for (size_t at = 0; at < bytes.size();) {
      const size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
      out.AppendPart(format, at, brace);
      if (brace == bytes.size()) break;
      TRY(evaluator_.Charge(2));
      if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
        out.AppendPart(format, brace, brace + 1);
        at = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') return BadFormat("a single '}'");
      size_t end = brace + 1;
      for (int open = 1; open > 0; ++end) {
        if (end >= bytes.size()) return BadFormat("a single '{'");
        if (bytes[end] == '{') ++open;
        if (bytes[end] == '}') --open;
      }
      ASSIGN_OR_RETURN(const Text field, Field(format.Part(brace + 1, end - 1), levels_left));
      out.Append(field);
      at = end;
    }
    return out;
  }

 private:
  // name!r:spec
  Result<Text> Field(const Text& field, int levels_left) {
    const std::string& bytes = field.bytes();
    const size_t name_end = std::min(bytes.find_first_of("!:"), bytes.size());
    ASSIGN_OR_RETURN(Value value, Lookup(bytes.substr(0, name_end)));
    size_t at = name_end;
    if (at + 1 < bytes.size() && bytes[at] == '!') {
      const char conversion = bytes[at + 1];
      ASSIGN_OR_RETURN(Text text, conversion == 'r'   ? ToRepr(value)
                                  : conversion == 'a' ? AsciiRepr(value)
                                                      : ToText(value));
      if (std::string_view("rsa").find(conversion) == std::string_view::npos) {
        return BadFormat("an unknown conversion behind '!'");
      }
      value = Value::OfText(std::move(text));
      at += 2;
    }
    if (at < bytes.size() && bytes[at] != ':') return BadFormat("'" + bytes + "'");
    if (at >= bytes.size()) return FormatWith(value, "");
    ASSIGN_OR_RETURN(const Text spec, Run(field.Part(at + 1, bytes.size()), levels_left - 1));
    return FormatWith(value, spec.bytes());
  }

  // 0, name, name.attribute, name[item]
  Result<Value> Lookup(const std::string& path) {
    size_t end = std::min(path.find_first_of(".["), path.size());
    ASSIGN_OR_RETURN(Value value, Argument(path.substr(0, end)));
    while (end < path.size()) {
      const bool item = path[end] == '[';
      const size_t begin = end + 1;
      end = std::min(item ? path.find(']', begin) : path.find_first_of(".[", begin), path.size());
      const std::string part = path.substr(begin, end - begin);
      if (part.empty() || (item && end == path.size())) return BadFormat("'{" + path + "}'");
      const auto number = item ? ParseDigits(part, 10) : std::nullopt;
      ASSIGN_OR_RETURN(value, item ? evaluator_.Index(value, number ? Value::Integer(*number)
                                                                    : Value::String(part))
                                   : evaluator_.Attribute(value, part));
      if (item) ++end;
    }
    return value;
  }

  Result<Value> Argument(const std::string& name) {
    const auto number = name.empty() ? Int128(next_++) : ParseDigits(name, 10);
    if (number) {
      if (*number >= static_cast<Int128>(arguments_.positional.size())) {
        return BadFormat("fewer values than the format has places");
      }
      return arguments_.positional[static_cast<size_t>(*number)];
    }
    const Value* value = arguments_.Named(name);
    if (value == nullptr) return BadFormat("the name '" + name + "', which is not given");
    return *value;
  }

  Evaluator& evaluator_;
  const CallArguments& arguments_;
  int next_ = 0;
};

}  // namespace

Result<Text> FormatPercent(Evaluator& evaluator, const Text& format, const Value& values) {
  return PercentFormatter(evaluator, format, values).Run();
}

Result<Text> FormatBraces(Evaluator& evaluator, const Text& format,
                          const CallArguments& arguments) {
  return BraceFormatter(evaluator, arguments).Run(format, 3);
}

}  // namespace weft::jinja
