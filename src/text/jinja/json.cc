#include "text/jinja/json.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <cstdio>

#include "text/jinja/python_text.h"
#include "text/utf8.h"

namespace weft::jinja {
namespace {

constexpr size_t kMaxJsonBytes = size_t{64} << 20;
constexpr int kMaxContextDepth = kMaxValueDepth - 2;

class JsonWriter {
 public:
  explicit JsonWriter(const ToJsonOptions& options) : options_(options) {
    item_separator_ = Text(options.indent ? "," : ", ");
    key_separator_ = Text(": ");
    if (options.separators) {
      item_separator_ = options.separators->first;
      key_separator_ = options.separators->second;
    }
  }

  Status Write(const Value& value, int depth) {
    if (depth > kMaxValueDepth) {
      return Refuse("The chat template writes a value as JSON that is nested more than " +
                    std::to_string(kMaxValueDepth) + " levels deep.");
    }
    if (out_.size() > kMaxJsonBytes) {
      return Refuse("The chat template writes more than 64 MiB of JSON.");
    }
    switch (value.kind()) {
      case Value::Kind::kString:
        WriteString(value.text().bytes(), value.text().has_quoted());
        return OkStatus();
      case Value::Kind::kArray:
        if (value.array()->form == ArrayData::Form::kList || value.array()->IsTuple()) {
          return WriteArray(value, depth);
        }
        break;
      case Value::Kind::kObject:
        return WriteObject(value, depth);
      default:
        if (const auto literal = Literal(value)) {
          out_.Append(*literal);
          return OkStatus();
        }
    }
    return Refuse("The chat template writes " + std::string(value.KindName()) +
                  " as JSON, which has no such thing.");
  }

  Text Take() { return std::move(out_); }

 private:
  static std::optional<std::string> Literal(const Value& value) {
    switch (value.kind()) {
      case Value::Kind::kNone:
        return "null";
      case Value::Kind::kBool:
        return value.bool_value() ? "true" : "false";
      case Value::Kind::kInteger:
        return DigitsOf(value.integer());
      case Value::Kind::kFloat:
        if (std::isnan(value.real())) return "NaN";
        if (std::isinf(value.real())) return value.real() < 0 ? "-Infinity" : "Infinity";
        return python::FloatText(value.real());
      default:
        return std::nullopt;
    }
  }

  void NewLine(int depth) {
    if (!options_.indent) return;
    out_.Append("\n");
    for (int i = 0; i < depth; ++i) out_.Append(*options_.indent);
  }

  Status WriteArray(const Value& value, int depth) {
    out_.Append("[");
    bool first = true;
    for (const Value& item : value.items()) {
      if (!first) out_.Append(item_separator_);
      first = false;
      NewLine(depth + 1);
      TRY(Write(item, depth + 1));
    }
    if (!first) NewLine(depth);
    out_.Append("]");
    return OkStatus();
  }

  // Keys in Python's order, which only keys of one kind have.
  static Status SortKeys(const ObjectData& object,
                         std::vector<const std::pair<std::string, Value>*>& entries) {
    uint64_t work = 0;
    for (const auto* entry : entries) {
      const auto order =
          Compare(KeyValue(object, entries[0]->first), KeyValue(object, entry->first), work);
      if (!order.ok()) return order.error();
    }
    std::stable_sort(entries.begin(), entries.end(), [&](const auto* a, const auto* b) {
      return *Compare(KeyValue(object, a->first), KeyValue(object, b->first), work) < 0;
    });
    return OkStatus();
  }

  Status WriteObject(const Value& value, int depth) {
    const ObjectData& object = *value.object();
    std::vector<const std::pair<std::string, Value>*> entries;
    for (const auto& entry : object.entries()) entries.push_back(&entry);
    if (options_.sort_keys) TRY(SortKeys(object, entries));
    out_.Append("{");
    bool first = true;
    for (const auto* entry : entries) {
      if (!first) out_.Append(item_separator_);
      first = false;
      NewLine(depth + 1);
      const Value key = KeyValue(object, entry->first);
      WriteString(key.IsString() ? key.string() : *Literal(key), object.has_quoted_keys);
      out_.Append(key_separator_);
      TRY(Write(entry->second, depth + 1));
    }
    if (!first) NewLine(depth);
    out_.Append("}");
    return OkStatus();
  }

  static void AppendEscape(std::string& json, uint32_t unit) {
    char escape[8];
    std::snprintf(escape, sizeof(escape), "\\u%04x", unit & 0xFFFF);
    json += escape;
  }

  void WriteString(std::string_view text, bool quoted) {
    std::string json = "\"";
    json.reserve(text.size() + 2);
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const uint32_t c = utf8::Next(text, at);
      static constexpr std::string_view kShort = "\b\f\n\r\t\"\\";
      static constexpr std::string_view kLetters = "bfnrt\"\\";
      const size_t short_form = c < 0x80 ? kShort.find(static_cast<char>(c)) : kShort.npos;
      if (short_form != kShort.npos) {
        json += {'\\', kLetters[short_form]};
      } else if (c < 0x20 || (options_.ensure_ascii && c >= 0x7F && c < 0x10000)) {
        AppendEscape(json, c);
      } else if (options_.ensure_ascii && c >= 0x10000) {
        AppendEscape(json, 0xD800 + ((c - 0x10000) >> 10));
        AppendEscape(json, 0xDC00 + ((c - 0x10000) & 0x3FF));
      } else {
        json += text.substr(begin, at - begin);
      }
    }
    json.push_back('"');
    out_.Append(json, quoted);
  }

  const ToJsonOptions& options_;
  Text item_separator_;
  Text key_separator_;
  Text out_;
};

Result<Value> Convert(const boost::json::value& value, bool quoted, int levels_left) {
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
      return Value::Integer(Int128{value.get_uint64()});
    case boost::json::kind::double_:
      return Value::Float(value.get_double());
    case boost::json::kind::string:
      if (utf8::FindInvalid(value.get_string()) != std::string_view::npos) {
        return Error(ErrorCode::kInvalidArgument,
                     "A string in the context of a chat template is not valid UTF-8.");
      }
      return Value::OfText(Text(std::string(value.get_string()), quoted));
    case boost::json::kind::array: {
      auto array = std::make_shared<ArrayData>();
      array->items.reserve(value.get_array().size());
      for (const boost::json::value& item : value.get_array()) {
        ASSIGN_OR_RETURN(Value converted, Convert(item, quoted, levels_left - 1));
        array->depth = std::max(array->depth, converted.depth() + 1);
        array->items.push_back(std::move(converted));
      }
      return Value::Array(std::move(array));
    }
    case boost::json::kind::object: {
      auto object = std::make_shared<ObjectData>();
      object->has_quoted_keys = quoted;
      for (const auto& [key, item] : value.get_object()) {
        ASSIGN_OR_RETURN(Value converted, Convert(item, quoted, levels_left - 1));
        object->Set(ObjectKeyOf(key), std::move(converted));
      }
      return Value::Object(std::move(object));
    }
  }
  return Value();
}

}  // namespace

Result<Text> ToJson(const Value& value, const ToJsonOptions& options) {
  JsonWriter writer(options);
  TRY(writer.Write(value, 0));
  return writer.Take();
}

Result<Value> FromJson(const boost::json::value& value, bool quoted) {
  return Convert(value, quoted, kMaxContextDepth);
}

}  // namespace weft::jinja
