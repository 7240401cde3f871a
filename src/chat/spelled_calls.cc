#include "chat/spelled_calls.h"

#include <algorithm>

namespace weft::chat {
namespace {

struct Tags {
  std::string_view call, close, argument, value_end;
  bool on_lines;  // values stand on lines of their own
};

constexpr Tags kTags[] = {
    {"<function=", "</function>", "<parameter=", "</parameter>", true},
    {"<invoke name=", "</invoke>", "<parameter name=", "</parameter>", false},
    {"<\uFF5CDSML\uFF5Cinvoke name=", "</\uFF5CDSML\uFF5Cinvoke>",
     "<\uFF5CDSML\uFF5Cparameter name=", "</\uFF5CDSML\uFF5Cparameter>", false},
};

// Of `city" string="true"`, or of `city`: the name, and what follows it.
std::string_view NameIn(std::string_view head, std::string_view* attributes) {
  head = TrimmedText(head);
  if (!head.starts_with("\"") && !head.starts_with("'")) return head;
  const size_t end = head.find(head[0], 1);
  if (end == std::string_view::npos) return head;
  *attributes = head.substr(end + 1);
  return head.substr(1, end - 1);
}

// <parameter=K>\nV\n</parameter> has one line break on either side that is not the value's. Some
// write the value without them, so that one at the end alone belongs to it.
std::string_view WithoutLines(std::string_view value) {
  if (!value.starts_with("\n")) return value;
  value.remove_prefix(1);
  if (value.ends_with("\n")) value.remove_suffix(1);
  return value;
}

// Behind <function=F>: arguments up to the closing tag.
bool ReadTaggedArguments(LiteralReader& reader, const Tags& tags, bool ends_with_block,
                         const Tools& tools, Call* call) {
  reader.SkipSpace();
  if (reader.rest().starts_with("{"))
    return reader.Value(&call->arguments) &&
           (reader.Accept(tags.close) || (ends_with_block && reader.AtEnd()));
  std::vector<Member> arguments;
  while (!reader.Accept(tags.close)) {
    if (ends_with_block && reader.AtEnd()) break;
    std::string_view head, value, attributes;
    if (!reader.Accept(tags.argument) || !reader.Until(">", &head) ||
        !reader.Until(tags.value_end, &value))
      return false;
    const std::string key(NameIn(head, &attributes));
    if (tags.on_lines) value = WithoutLines(value);
    const bool is_string = attributes.find("string=\"true\"") != std::string_view::npos;
    const bool is_other = attributes.find("string=\"false\"") != std::string_view::npos;
    arguments.emplace_back(
        key, is_string ? Quoted(value)
                       : ArgumentJson(value, is_other ? nullptr : tools.SchemaOf(call->name, key)));
  }
  call->arguments = ObjectOf(arguments);
  return true;
}

// The values of MiniMax M3, whose elements nest.
class ElementReader {
 public:
  ElementReader(LiteralReader& reader, std::string_view prefix)
      : reader_(reader), open_(std::string(prefix) + "<"), close_(std::string(prefix) + "</") {}

  bool AcceptClose(std::string_view name) {
    return reader_.Accept(close_ + std::string(name) + ">");
  }

  // Up to and with the closing tag of `name`, behind its opening one.
  bool Value(std::string_view name, const boost::json::value* schema, std::string* json) {
    const std::string_view rest = reader_.rest();
    const std::string_view prefix = std::string_view(open_).substr(0, open_.size() - 1);
    const size_t tag = rest.find(prefix);
    if (tag == std::string_view::npos || ++depth_ > LiteralReader::kMaxDepth) return false;
    if (rest.substr(tag).starts_with(close_)) {
      std::string_view text;
      if (!reader_.Until(close_ + std::string(name) + ">", &text) || text.size() != tag)
        return false;
      *json = Leaf(text, schema);
    } else if (!Children(name, schema, json)) {
      return false;
    }
    --depth_;
    return true;
  }

  bool Child(const boost::json::value* schema, bool may_be_item, Member* member) {
    std::string_view name;
    if (!reader_.Accept(open_) || !reader_.Until(">", &name)) return false;
    member->first = std::string(name);
    const boost::json::value* inner =
        may_be_item && name == "item" ? ItemsOf(schema) : PropertyOf(schema, name);
    return Value(name, inner, &member->second);
  }

 private:
  static std::string Leaf(std::string_view text, const boost::json::value* schema) {
    if (TrimmedText(text).empty() && !Allows(schema, "string")) {
      if (Allows(schema, "array")) return "[]";
      if (Allows(schema, "object")) return "{}";
    }
    return ArgumentJson(text, schema);
  }

  bool Children(std::string_view name, const boost::json::value* schema, std::string* json) {
    const bool may_be_list = !Allows(schema, "object");
    std::vector<Member> members;
    while (!AcceptClose(name))
      if (!Child(schema, may_be_list, &members.emplace_back())) return false;
    const bool is_list = may_be_list && std::ranges::all_of(members, [](const Member& member) {
                           return member.first == "item";
                         });
    if (!is_list) {
      *json = ObjectOf(members);
      return true;
    }
    *json = "[";
    for (const Member& member : members) *json += (json->size() > 1 ? ", " : "") + member.second;
    *json += "]";
    return true;
  }

  LiteralReader& reader_;
  const std::string open_, close_;
  int depth_ = 0;
};

// Strings stand between <|"|>; keys do, or not.
class GemmaReader {
 public:
  explicit GemmaReader(LiteralReader& reader) : reader_(reader) {}

  // Behind the bracket that opens.
  bool Object(std::string* json) {
    std::vector<Member> members;
    if (++depth_ > LiteralReader::kMaxDepth) return false;
    for (bool is_first = true; !reader_.Accept("}"); is_first = false) {
      if (!is_first && !reader_.Accept(",")) return false;
      Member member;
      std::string_view key;
      if (reader_.Accept(kQuote)) {
        if (!reader_.Until(kQuote, &key) || !reader_.Accept(":")) return false;
      } else if (!reader_.Until(":", &key)) {
        return false;
      }
      member.first = std::string(TrimmedText(key));
      if (!Value(&member.second)) return false;
      members.push_back(std::move(member));
    }
    --depth_;
    *json += ObjectOf(members);
    return true;
  }

 private:
  static constexpr std::string_view kQuote = "<|\"|>";

  bool Value(std::string* json) {
    if (reader_.Accept(kQuote)) {
      std::string_view text;
      if (!reader_.Until(kQuote, &text)) return false;
      *json += Quoted(text);
      return true;
    }
    if (reader_.Accept("{")) return Object(json);
    if (!reader_.Accept("[")) return reader_.Value(json);
    if (++depth_ > LiteralReader::kMaxDepth) return false;
    *json += "[";
    for (bool is_first = true; !reader_.Accept("]"); is_first = false) {
      if (!is_first && !reader_.Accept(",")) return false;
      if (!is_first) *json += ", ";
      if (!Value(json)) return false;
    }
    --depth_;
    *json += "]";
    return true;
  }

  LiteralReader& reader_;
  int depth_ = 0;
};

}  // namespace

BlockCalls ReadTagged(std::string_view block, bool ends_with_block, const Tools& tools) {
  BlockCalls found;
  LiteralReader reader(block);
  while (!reader.AtEnd()) {
    const Tags* tags =
        std::ranges::find_if(kTags, [&](const Tags& each) { return reader.Accept(each.call); });
    Call call;
    std::string_view head, attributes;
    if (tags == std::end(kTags) || !reader.Until(">", &head)) return found;
    call.name = std::string(NameIn(head, &attributes));
    if (!IsCallName(call.name) ||
        !ReadTaggedArguments(reader, *tags, ends_with_block, tools, &call))
      return found;
    found.calls.push_back(std::move(call));
    found.read_bytes = reader.at();
  }
  if (!found.calls.empty()) found.read_bytes = block.size();
  return found;
}

BlockCalls ReadPairs(std::string_view block, const Tools& tools) {
  BlockCalls found;
  LiteralReader reader(block);
  Call call;
  const std::string_view head = block.substr(0, block.find_first_of("<{`"));
  call.name = std::string(TrimmedText(head));
  if (!IsCallName(call.name) || !reader.Accept(call.name)) return found;
  reader.SkipSpace();
  if (reader.rest().starts_with("{") || reader.rest().starts_with("```")) {
    if (!ReadFencedObject(reader, &call.arguments) || !reader.AtEnd()) return found;
  } else {
    std::vector<Member> arguments;
    while (!reader.AtEnd()) {
      std::string_view key, value;
      if (!reader.Accept("<arg_key>") || !reader.Until("</arg_key>", &key) ||
          !reader.Accept("<arg_value>") || !reader.Until("</arg_value>", &value))
        return found;
      const std::string name(TrimmedText(key));
      arguments.emplace_back(name, ArgumentJson(value, tools.SchemaOf(call.name, name)));
    }
    call.arguments = ObjectOf(arguments);
  }
  found.calls.push_back(std::move(call));
  found.read_bytes = block.size();
  return found;
}

BlockCalls ReadElements(std::string_view block, std::string_view prefix, const Tools& tools) {
  BlockCalls found;
  LiteralReader reader(block);
  while (!reader.AtEnd()) {
    Call call;
    std::string_view head, attributes;
    ElementReader elements(reader, prefix);
    if (!reader.Accept(std::string(prefix) + "<invoke name=") || !reader.Until(">", &head))
      return found;
    call.name = std::string(NameIn(head, &attributes));
    if (!IsCallName(call.name)) return found;
    std::vector<Member> arguments;
    while (!elements.AcceptClose("invoke"))
      if (!elements.Child(tools.SchemaOf(call.name), false, &arguments.emplace_back()))
        return found;
    call.arguments = ObjectOf(arguments);
    found.calls.push_back(std::move(call));
    found.read_bytes = reader.at();
  }
  if (!found.calls.empty()) found.read_bytes = block.size();
  return found;
}

BlockCalls ReadPython(std::string_view block) {
  BlockCalls found;
  LiteralReader reader(block);
  if (!reader.Accept("[")) return found;
  for (bool is_first = true; !reader.Accept("]"); is_first = false) {
    Call call;
    if ((!is_first && !reader.Accept(",")) || !reader.Name(&call.name) || !reader.Accept("("))
      return found;
    std::vector<Member> arguments;
    for (bool is_first_argument = true; !reader.Accept(")"); is_first_argument = false) {
      Member& argument = arguments.emplace_back();
      if ((!is_first_argument && !reader.Accept(",")) || !reader.Name(&argument.first) ||
          !reader.Accept("=") || !reader.Value(&argument.second))
        return found;
    }
    call.arguments = ObjectOf(arguments);
    found.calls.push_back(std::move(call));
    found.read_bytes = reader.at();
  }
  if (reader.AtEnd() && !found.calls.empty()) found.read_bytes = block.size();
  return found;
}

BlockCalls ReadGemma(std::string_view block) {
  BlockCalls found;
  LiteralReader reader(block);
  while (!reader.AtEnd()) {
    Call call;
    if (!reader.Accept("call:") || !reader.Name(&call.name) || !reader.Accept("{") ||
        !GemmaReader(reader).Object(&call.arguments))
      return found;
    found.calls.push_back(std::move(call));
    found.read_bytes = reader.at();
  }
  if (!found.calls.empty()) found.read_bytes = block.size();
  return found;
}

}  // namespace weft::chat
