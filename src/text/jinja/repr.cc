#include "text/jinja/repr.h"

#include "text/jinja/python_text.h"

namespace weft::jinja {
namespace {

constexpr size_t kMaxReprBytes = size_t{64} << 20;

class ReprWriter {
 public:
  Status Write(const Value& value, int depth) {
    if (depth > kMaxValueDepth) {
      return Refuse("The chat template prints a value that is nested more than " +
                    std::to_string(kMaxValueDepth) + " levels deep.");
    }
    if (out_.size() > kMaxReprBytes) {
      return Refuse("The chat template prints a value of more than 64 MiB.");
    }
    switch (value.kind()) {
      case Value::Kind::kUndefined:
        out_.Append("Undefined");
        return OkStatus();
      case Value::Kind::kNone:
        out_.Append("None");
        return OkStatus();
      case Value::Kind::kBool:
        out_.Append(value.bool_value() ? "True" : "False");
        return OkStatus();
      case Value::Kind::kInteger:
        out_.Append(DigitsOf(value.integer()));
        return OkStatus();
      case Value::Kind::kFloat:
        out_.Append(python::FloatText(value.real()));
        return OkStatus();
      case Value::Kind::kString:
        WriteString(value.text());
        return OkStatus();
      case Value::Kind::kArray:
        return WriteArray(*value.array(), depth);
      case Value::Kind::kObject:
        return WriteObject(*value.object(), depth);
      case Value::Kind::kNamespace:
        out_.Append("<Namespace ");
        TRY(WriteObject(*value.object(), depth));
        out_.Append(">");
        return OkStatus();
      case Value::Kind::kFunction:
        break;
    }
    return Refuse("The chat template prints the function " + value.function().name + ".");
  }

  Text Take() { return std::move(out_); }

 private:
  void WriteString(const Text& text) {
    if (text.is_markup()) out_.Append("Markup(");
    out_.Append(python::Quoted(text.bytes()), text.has_quoted());
    if (text.is_markup()) out_.Append(")");
  }

  Status WriteItems(const ArrayData& array, std::string_view open, std::string_view close,
                    int depth) {
    out_.Append(open);
    for (size_t i = 0; i < array.items.size(); ++i) {
      if (i > 0) out_.Append(", ");
      TRY(Write(array.items[i], depth + 1));
    }
    out_.Append(close);
    return OkStatus();
  }

  Status WriteArray(const ArrayData& array, int depth) {
    switch (array.form) {
      case ArrayData::Form::kTuple:
      case ArrayData::Form::kGroup:
        return WriteItems(array, "(", array.items.size() == 1 ? ",)" : ")", depth);
      case ArrayData::Form::kRange:
        out_.Append(array.range_text);
        return OkStatus();
      case ArrayData::Form::kKeys:
        return WriteItems(array, "dict_keys([", "])", depth);
      case ArrayData::Form::kValues:
        return WriteItems(array, "dict_values([", "])", depth);
      case ArrayData::Form::kItems:
        return WriteItems(array, "dict_items([", "])", depth);
      case ArrayData::Form::kIterator:
        // Python prints an address here.
        return Refuse("The chat template prints an iterator; it needs the filter 'list'.");
      default:
        return WriteItems(array, "[", "]", depth);
    }
  }

  Status WriteObject(const ObjectData& object, int depth) {
    out_.Append("{");
    bool first = true;
    for (const auto& [key, value] : object.entries()) {
      if (!first) out_.Append(", ");
      first = false;
      TRY(Write(KeyValue(object, key), depth + 1));
      out_.Append(": ");
      TRY(Write(value, depth + 1));
    }
    out_.Append("}");
    return OkStatus();
  }

  Text out_;
};

}  // namespace

Result<Text> ToRepr(const Value& value) {
  ReprWriter writer;
  TRY(writer.Write(value, 0));
  return writer.Take();
}

Result<Text> ToText(const Value& value) {
  if (value.IsString()) return value.text();
  if (value.IsUndefined()) return Text();
  return ToRepr(value);
}

}  // namespace weft::jinja
