#include "text/jinja/json.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>

#include <algorithm>
#include <cstdio>

#include "text/utf8.h"

namespace weft::jinja {
namespace {

constexpr size_t kMaxJsonBytes = size_t{64} << 20;
constexpr int kMaxContextDepth = kMaxValueDepth - 2;

class JsonWriter {
 public:
  explicit JsonWriter(const ToJsonOptions& options) : options_(options) {
    item_separator_ = options.indent > 0 ? "," : ", ";
    key_separator_ = ": ";
    if (options.separators) {
      item_separator_ = options.separators->first;
      key_separator_ = options.separators->second;
    }
  }

  Status Write(const Value& value, int depth) {
    if (depth > kMaxValueDepth) {
      return Error(ErrorCode::kInvalidData,
                   "The template writes a value as JSON that is nested more than " +
                       std::to_string(kMaxValueDepth) + " levels deep.");
    }
    if (out_.size() > kMaxJsonBytes) {
      return Error(ErrorCode::kInvalidData, "The template writes more than 64 MiB of JSON.");
    }
    switch (value.kind()) {
      case Value::Kind::kUndefined:
        out_ += options_.undefined_text;
        return OkStatus();
      case Value::Kind::kNone:
        out_ += "null";
        return OkStatus();
      case Value::Kind::kBool:
        out_ += value.bool_value() ? "true" : "false";
        return OkStatus();
      case Value::Kind::kInteger:
        out_ += std::to_string(value.integer());
        return OkStatus();
      case Value::Kind::kFloat:
        out_ += FloatText(value.real());
        return OkStatus();
      case Value::Kind::kString:
        WriteString(value.string());
        return OkStatus();
      case Value::Kind::kArray:
        return WriteArray(value, depth);
      case Value::Kind::kObject:
      case Value::Kind::kNamespace:
        return WriteObject(value, depth);
      case Value::Kind::kFunction:
        break;
    }
    return Error(ErrorCode::kInvalidData,
                 "The template writes the function " + value.function().name + " as JSON.");
  }

  std::string Take() { return std::move(out_); }

 private:
  void NewLine(int depth) {
    if (options_.indent <= 0) return;
    out_.push_back('\n');
    out_.append(static_cast<size_t>(options_.indent) * static_cast<size_t>(depth), ' ');
  }

  Status WriteArray(const Value& value, int depth) {
    out_.push_back('[');
    bool first = true;
    for (const Value& item : value.items()) {
      if (!first) out_ += item_separator_;
      first = false;
      NewLine(depth + 1);
      TRY(Write(item, depth + 1));
    }
    if (!first) NewLine(depth);
    out_.push_back(']');
    return OkStatus();
  }

  Status WriteObject(const Value& value, int depth) {
    std::vector<const std::pair<std::string, Value>*> entries;
    for (const auto& entry : value.object()->entries()) entries.push_back(&entry);
    if (options_.sort_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [](const auto* a, const auto* b) { return a->first < b->first; });
    }
    out_.push_back('{');
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_ += item_separator_;
      first = false;
      NewLine(depth + 1);
      WriteString(KeyDigits(entry->first));
      out_ += key_separator_;
      TRY(Write(entry->second, depth + 1));
    }
    if (!first) NewLine(depth);
    out_.push_back('}');
    return OkStatus();
  }

  void WriteEscape(uint32_t unit) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", unit & 0xFFFF);
    out_ += escape;
  }

  void WriteString(std::string_view text) {
    out_.push_back('"');
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const uint32_t c = utf8::Next(text, at);
      static constexpr std::string_view kShort = "\b\f\n\r\t\"\\";
      static constexpr std::string_view kLetters = "bfnrt\"\\";
      const size_t short_form = c < 0x80 ? kShort.find(static_cast<char>(c)) : kShort.npos;
      if (short_form != kShort.npos) {
        out_.push_back('\\');
        out_.push_back(kLetters[short_form]);
      } else if (c < 0x20 || (options_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
        WriteEscape(c);
      } else if (options_.ensure_ascii && c >= 0x10000) {
        WriteEscape(0xD800 + ((c - 0x10000) >> 10));
        WriteEscape(0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        out_ += text.substr(begin, at - begin);
      }
    }
    out_.push_back('"');
  }

  const ToJsonOptions& options_;
  std::string item_separator_;
  std::string key_separator_;
  std::string out_;
};

Result<Value> Convert(const boost::json::value& value, int levels_left) {
  if (levels_left == 0 && (value.is_array() || value.is_object())) {
    return Error(ErrorCode::kInvalidArgument,
                 "The context of a chat template is nested more than " +
                     std::to_string(kMaxContextDepth) + " levels deep.");
  }
  switch (value.kind()) {
    case boost::json::kind::null:
      return Value::MakeNone();
    case boost::json::kind::bool_:
      return Value::Bool(value.get_bool());
    case boost::json::kind::int64:
      return Value::Integer(value.get_int64());
    case boost::json::kind::uint64:
      return Value::Float(static_cast<double>(value.get_uint64()));
    case boost::json::kind::double_:
      return Value::Float(value.get_double());
    case boost::json::kind::string:
      if (utf8::FindInvalid(value.get_string()) != std::string_view::npos) {
        return Error(ErrorCode::kInvalidArgument,
                     "A string in the context of a chat template is not valid UTF-8.");
      }
      return Value::String(std::string(value.get_string()));
    case boost::json::kind::array: {
      auto array = std::make_shared<ArrayData>();
      array->items.reserve(value.get_array().size());
      for (const boost::json::value& item : value.get_array()) {
        ASSIGN_OR_RETURN(Value converted, Convert(item, levels_left - 1));
        array->depth = std::max(array->depth, converted.depth() + 1);
        array->items.push_back(std::move(converted));
      }
      return Value::Array(std::move(array));
    }
    case boost::json::kind::object: {
      auto object = std::make_shared<ObjectData>();
      for (const auto& [key, item] : value.get_object()) {
        ASSIGN_OR_RETURN(Value converted, Convert(item, levels_left - 1));
        object->Set(std::string_view(key), std::move(converted));
      }
      return Value::Object(std::move(object));
    }
  }
  return Value();
}

}  // namespace

Result<std::string> ToJson(const Value& value, const ToJsonOptions& options) {
  JsonWriter writer(options);
  TRY(writer.Write(value, 0));
  return writer.Take();
}

Result<Value> FromJson(const boost::json::value& value) {
  return Convert(value, kMaxContextDepth);
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const double size = std::fabs(value);
  // Python switches to exponents at 1e16 and below 1e-4.
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer, end.ptr);
  if (plain && text.find('.') == std::string::npos) text += ".0";
  return text;
}

Result<std::string> ToText(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
    case Value::Kind::kNone:
      return std::string();
    case Value::Kind::kBool:
      return std::string(value.bool_value() ? "true" : "false");
    case Value::Kind::kInteger:
      return std::to_string(value.integer());
    case Value::Kind::kFloat:
      return FloatText(value.real());
    case Value::Kind::kString:
      return value.string();
    case Value::Kind::kFunction:
      return Error(ErrorCode::kInvalidData,
                   "The template prints the function " + value.function().name + ".");
    default:
      return ToJson(value, {.undefined_text = "undefined"});
  }
}

}  // namespace weft::jinja
