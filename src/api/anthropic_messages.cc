#include "api/anthropic_messages.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/chat_messages.h"
#include "api/request_fields.h"

namespace weft::api {
namespace json = boost::json;

namespace {

// Claude Code begins its system prompt with a line for Anthropic's billing, which is another one in
// every request: what stands behind it would never be found among what was computed before.
constexpr std::string_view kBillingLine = "x-anthropic-billing-header:";

std::string Item(const std::string& list, size_t index) {
  return list + "[" + std::to_string(index) + "]";
}

ApiError Unexpected(const std::string& field, const json::value* value,
                    const std::string& expected) {
  return RefuseField(field, (value == nullptr ? "'" + field + "' is missing"
                                              : "'" + field + "' is " + ShownValue(*value)) +
                                "; expected " + expected + ".");
}

// The string that a field of a block has; nullptr: it has none.
const json::string* TextOf(const json::object& block, const char* name) {
  const json::value* value = block.if_contains(name);
  return value != nullptr ? value->if_string() : nullptr;
}

std::string_view TypeOf(const json::value& block) {
  const json::object* object = block.if_object();
  const json::string* type = object != nullptr ? TextOf(*object, "type") : nullptr;
  return type != nullptr ? std::string_view(*type) : "";
}

// Of a kind that no model here reads: pictures, documents, and what Anthropic's own tools say.
ApiError UnreadBlock(const std::string& where, const json::value& block,
                     const std::string& expected) {
  const std::string_view type = TypeOf(block);
  return RefuseField(
      where, type.empty()
                 ? "'" + where + "' is " + ShownValue(block) + "; expected an object with a 'type'."
                 : "'" + where + "' is a block of type '" + std::string(type.substr(0, 60)) +
                       "'; expected " + expected + ".");
}

using Texts = std::vector<std::string>;

// A string, or blocks of text.
ApiResult<Texts> ReadTexts(const json::value& content, const std::string& where) {
  if (content.is_string()) return Texts{std::string(content.as_string())};
  if (!content.is_array())
    return Unexpected(where, &content, "a string or an array of blocks of text");
  Texts texts;
  for (size_t i = 0; i < content.as_array().size(); ++i) {
    const json::value& block = content.as_array()[i];
    const json::string* text =
        TypeOf(block) == "text" ? TextOf(block.as_object(), "text") : nullptr;
    if (text == nullptr) return UnreadBlock(Item(where, i), block, "text alone");
    texts.emplace_back(*text);
  }
  return texts;
}

class Reader {
 public:
  explicit Reader(json::array* out) : out_(*out) {}

  std::optional<ApiError> Read(const json::value& message, const std::string& where);

 private:
  std::optional<ApiError> ReadBlock(const json::value& block, const std::string& role,
                                    const std::string& where);
  std::optional<ApiError> ReadCall(const json::object& block, const std::string& where);
  std::optional<ApiError> ReadResult(const json::object& block, const std::string& where);
  // The message that more of this role goes into.
  json::object& Open(const char* role);
  void AddText(const char* role, std::string_view text);

  json::array& out_;
  bool begins_ = false;  // nothing of the message that is read has been taken
  std::map<std::string, json::string, std::less<>> names_;  // of called tools, by id
};

json::object& Reader::Open(const char* role) {
  const bool goes_on = !out_.empty() && out_.back().at("role") == role;
  if (!goes_on) out_.push_back(MessageOf(role, ""));
  json::object& message = out_.back().as_object();
  json::string& text = message["content"].as_string();
  if (goes_on && begins_ && !text.empty()) text += "\n\n";
  begins_ = false;
  return message;
}

void Reader::AddText(const char* role, std::string_view text) {
  Open(role)["content"].as_string() += text;
}

std::optional<ApiError> Reader::ReadCall(const json::object& block, const std::string& where) {
  const json::string* id = TextOf(block, "id");
  const json::string* name = TextOf(block, "name");
  const json::value* input = block.if_contains("input");
  if (id == nullptr || name == nullptr || input == nullptr || !input->is_object())
    return RefuseField(where, "'" + where + "' is " + ShownValue(block) +
                                  "; expected {\"type\": \"tool_use\", \"id\", \"name\", "
                                  "\"input\": {...}}.");
  names_[std::string(*id)] = *name;
  json::object& message = Open("assistant");
  json::value& calls = message["tool_calls"];
  if (!calls.is_array()) calls = json::array();
  calls.as_array().push_back(
      {{"id", *id}, {"type", "function"}, {"function", {{"name", *name}, {"arguments", *input}}}});
  return std::nullopt;
}

std::optional<ApiError> Reader::ReadResult(const json::object& block, const std::string& where) {
  const json::string* id = TextOf(block, "tool_use_id");
  const auto called = id == nullptr ? names_.end() : names_.find(std::string_view(*id));
  if (called == names_.end())
    return Unexpected(where + ".tool_use_id", block.if_contains("tool_use_id"),
                      "the id of a tool_use block before it");
  const json::value* content = block.if_contains("content");
  std::string text;
  if (content != nullptr && !content->is_null()) {
    auto read = ReadTexts(*content, where + ".content");
    if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
    for (const std::string& piece : std::get<Texts>(read)) text += piece;
  }
  const json::value* is_error = block.if_contains("is_error");
  if (is_error != nullptr && !is_error->is_null() && !is_error->is_bool())
    return Unexpected(where + ".is_error", is_error, "true or false");
  // Templates have no word for it.
  if (is_error != nullptr && *is_error == true && !text.starts_with("Error"))
    text = "Error: " + text;
  json::object message = MessageOf("tool", std::move(text));
  message["tool_call_id"] = *id;
  message["name"] = called->second;
  out_.push_back(std::move(message));
  begins_ = false;
  return std::nullopt;
}

std::optional<ApiError> Reader::ReadBlock(const json::value& block, const std::string& role,
                                          const std::string& where) {
  const std::string_view type = TypeOf(block);
  const json::object* object = block.if_object();
  const bool is_assistant = role == "assistant";
  if (type == "text") {
    const json::string* text = TextOf(*object, "text");
    if (text == nullptr) return Unexpected(where + ".text", object->if_contains("text"), "a text");
    AddText(role.c_str(), *text);
    return std::nullopt;
  }
  if (type == "tool_result" && role == "user") return ReadResult(*object, where);
  if (type == "tool_use" && is_assistant) return ReadCall(*object, where);
  if (type == "thinking" && is_assistant) {
    const json::string* text = TextOf(*object, "thinking");
    if (text == nullptr)
      return Unexpected(where + ".thinking", object->if_contains("thinking"), "a text");
    json::value& thoughts = Open("assistant")["reasoning_content"];
    if (!thoughts.is_string()) thoughts = "";
    thoughts.as_string() += *text;
    return std::nullopt;
  }
  // Thoughts that only who wrote them can read.
  if (type == "redacted_thinking" && is_assistant) return std::nullopt;
  return UnreadBlock(where, block,
                     is_assistant     ? "text, thinking, redacted_thinking or tool_use"
                     : role == "user" ? "text or tool_result, which are all that this model reads"
                                      : "text alone");
}

std::optional<ApiError> Reader::Read(const json::value& message, const std::string& where) {
  const json::object* object = message.if_object();
  const json::string* role = object != nullptr ? TextOf(*object, "role") : nullptr;
  if (role == nullptr || (*role != "user" && *role != "assistant" && *role != "system"))
    return Unexpected(where + ".role", object != nullptr ? object->if_contains("role") : &message,
                      "user, assistant or system");
  const std::string name(*role);
  const json::value* content = object->if_contains("content");
  begins_ = true;
  if (content != nullptr && content->is_string()) {
    AddText(name.c_str(), content->as_string());
    return std::nullopt;
  }
  if (content == nullptr || !content->is_array())
    return Unexpected(where + ".content", content, "a string or an array of blocks");
  for (size_t i = 0; i < content->as_array().size(); ++i) {
    const json::value& block = content->as_array()[i];
    if (auto error = ReadBlock(block, name, Item(where + ".content", i))) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> ReadSystem(const json::value& system, json::array* out) {
  auto read = ReadTexts(system, "system");
  if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
  std::string text;
  for (std::string& piece : std::get<Texts>(read)) {
    if (piece.starts_with(kBillingLine))
      piece.erase(0, std::min(piece.find('\n'), piece.size() - 1) + 1);
    text += piece;
  }
  if (!text.empty()) out->push_back(MessageOf("system", std::move(text)));
  return std::nullopt;
}

}  // namespace

std::optional<ApiError> ReadAnthropicMessages(const json::value* system,
                                              const json::value* messages, json::array* out) {
  if (system != nullptr)
    if (auto error = ReadSystem(*system, out)) return error;
  if (messages == nullptr || !messages->is_array() || messages->as_array().empty())
    return Unexpected("messages", messages, "a non-empty array of {\"role\", \"content\"} objects");
  Reader reader(out);
  for (size_t i = 0; i < messages->as_array().size(); ++i)
    if (auto error = reader.Read(messages->as_array()[i], Item("messages", i))) return error;
  if (out->empty()) return Unexpected("messages", messages, "messages that say something");
  for (json::value& message : *out) {
    json::object& object = message.as_object();
    if (object.at("role") != "assistant") continue;
    if (object.contains("tool_calls") && object.at("content") == "") object["content"] = nullptr;
    NameReasoning(object);
  }
  if (out->back().at("role") == "assistant")
    return RefuseField("messages",
                       "'messages' ends with one of the assistant, which weft cannot go on with; "
                       "expected one of the user.");
  return std::nullopt;
}

}  // namespace weft::api
