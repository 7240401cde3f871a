#include "api/responses_items.h"

#include <string_view>
#include <utility>

#include "api/chat_messages.h"
#include "api/request_fields.h"
#include "base/random.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr size_t kIdBytes = 16;

// nullptr: absent or no string.
const json::string* StringAt(const json::object& object, std::string_view name) {
  const json::value* value = object.if_contains(name);
  return value != nullptr ? value->if_string() : nullptr;
}

ApiError Refusal(const std::string& where, const json::value& value, const char* expected) {
  return RefuseField(where,
                     "'" + where + "' is " + ShownValue(value) + "; expected " + expected + ".");
}

// {"type": `type`, "text"} of each part; `text_of` says under which name a part has its text, "":
// it is none.
ApiResult<json::array> ReadParts(const json::value& content, const std::string& where,
                                 const char* type) {
  if (content.is_string())
    return json::array{json::object{{"type", type}, {"text", content.as_string()}}};
  if (!content.is_array()) return Refusal(where, content, "a text, or an array of text parts");
  json::array parts;
  for (size_t i = 0; i < content.as_array().size(); ++i) {
    const json::value& value = content.as_array()[i];
    const json::object* part = value.if_object();
    const json::string* kind = part != nullptr ? StringAt(*part, "type") : nullptr;
    const bool is_refusal = kind != nullptr && *kind == "refusal";
    const bool is_text =
        kind != nullptr && (is_refusal || kind->ends_with("_text") || *kind == "text");
    const json::string* text = is_text ? StringAt(*part, is_refusal ? "refusal" : "text") : nullptr;
    if (text == nullptr) {
      const std::string place = where + "[" + std::to_string(i) + "]";
      return RefuseField(
          place, "'" + place + "' is " +
                     (kind != nullptr ? "a part of type " + ShownValue(*kind) : ShownValue(value)) +
                     "; this model reads text parts only: {\"type\": \"" + type +
                     "\", \"text\": ...}.");
    }
    parts.push_back(json::object{{"type", type}, {"text", *text}});
  }
  return parts;
}

std::string TextOf(const json::value* parts) {
  std::string text;
  if (parts == nullptr || !parts->is_array()) return text;
  for (const json::value& part : parts->as_array()) text += part.at("text").as_string();
  return text;
}

std::string IdOf(const json::object& item, const char* prefix) {
  const json::string* id = StringAt(item, "id");
  return id != nullptr && !id->empty() ? std::string(*id) : prefix + SecureRandomHex(kIdBytes);
}

ApiResult<json::object> ReadMessage(const json::object& item, const std::string& where) {
  const json::string* role = StringAt(item, "role");
  if (role == nullptr ||
      (*role != "user" && *role != "assistant" && *role != "system" && *role != "developer")) {
    const json::value* given = item.if_contains("role");
    return Refusal(where + ".role", given != nullptr ? *given : json::value(),
                   "user, assistant, system or developer");
  }
  const json::value* content = item.if_contains("content");
  if (content == nullptr || content->is_null())
    return RefuseField(where + ".content", "'" + where + ".content' is missing.");
  const bool is_answer = *role == "assistant";
  auto parts = ReadParts(*content, where + ".content", is_answer ? "output_text" : "input_text");
  if (auto* error = std::get_if<ApiError>(&parts)) return std::move(*error);
  if (is_answer)
    for (json::value& part : std::get<json::array>(parts))
      part.as_object()["annotations"] = json::array();
  return json::object{{"id", IdOf(item, "msg_")},
                      {"type", "message"},
                      {"status", "completed"},
                      {"role", *role},
                      {"content", std::move(std::get<json::array>(parts))}};
}

ApiResult<json::object> ReadCall(const json::object& item, const std::string& where) {
  for (const char* name : {"call_id", "name", "arguments"}) {
    if (StringAt(item, name) != nullptr) continue;
    const json::value* given = item.if_contains(name);
    return Refusal(where + "." + name, given != nullptr ? *given : json::value(), "a text");
  }
  return json::object{{"id", IdOf(item, "fc_")},       {"type", "function_call"},
                      {"status", "completed"},         {"arguments", item.at("arguments")},
                      {"call_id", item.at("call_id")}, {"name", item.at("name")}};
}

ApiResult<json::object> ReadCallOutput(const json::object& item, const std::string& where) {
  const json::value* call_id = item.if_contains("call_id");
  if (call_id == nullptr || !call_id->is_string())
    return Refusal(where + ".call_id", call_id != nullptr ? *call_id : json::value(), "a text");
  const json::value* output = item.if_contains("output");
  if (output == nullptr)
    return RefuseField(where + ".output", "'" + where + ".output' is missing; expected a text.");
  auto parts = ReadParts(*output, where + ".output", "input_text");
  if (auto* error = std::get_if<ApiError>(&parts)) return std::move(*error);
  const json::value all = std::move(std::get<json::array>(parts));
  return json::object{{"id", IdOf(item, "fco_")},
                      {"type", "function_call_output"},
                      {"status", "completed"},
                      {"call_id", *call_id},
                      {"output", TextOf(&all)}};
}

// What is encrypted was not made here and says nothing.
ApiResult<json::object> ReadReasoning(const json::object& item, const std::string& where) {
  json::object read = {{"id", IdOf(item, "rs_")}, {"type", "reasoning"}};
  for (const auto& [field, type] :
       {std::pair{"summary", "summary_text"}, std::pair{"content", "reasoning_text"}}) {
    const json::value* given = item.if_contains(field);
    if (given == nullptr || given->is_null()) {
      read[field] = json::array();
      continue;
    }
    auto parts = ReadParts(*given, where + "." + field, type);
    if (auto* error = std::get_if<ApiError>(&parts)) return std::move(*error);
    read[field] = std::move(std::get<json::array>(parts));
  }
  return read;
}

ApiResult<json::object> ReadItem(const json::value& value, const std::string& where) {
  const json::object* item = value.if_object();
  if (item == nullptr) return Refusal(where, value, "an item, an object");
  const json::string* type = StringAt(*item, "type");
  if (type == nullptr && item->if_contains("role") == nullptr && StringAt(*item, "id") != nullptr)
    return json::object{{"type", "item_reference"}, {"id", *StringAt(*item, "id")}};
  if (type == nullptr || *type == "message") return ReadMessage(*item, where);
  if (*type == "function_call") return ReadCall(*item, where);
  if (*type == "function_call_output") return ReadCallOutput(*item, where);
  if (*type == "reasoning") return ReadReasoning(*item, where);
  const json::string* id = StringAt(*item, "id");
  if (*type == "item_reference" && id != nullptr)
    return json::object{{"type", "item_reference"}, {"id", *id}};
  return RefuseField(where + ".type",
                     "'" + where + ".type' is " + ShownValue(*type) +
                         "; expected message, function_call, function_call_output, reasoning or "
                         "item_reference: no tools are hosted here.");
}

// The assistant's last message, where it can go on with what it thought, said or called; else a new
// one.
json::object& AnswerIn(json::array& messages, bool goes_on) {
  if (!goes_on || messages.empty() || messages.back().at("role") != "assistant")
    messages.push_back(json::object{{"role", "assistant"}, {"content", nullptr}});
  return messages.back().as_object();
}

void AddMessage(const json::object& item, json::array& messages) {
  const std::string role(item.at("role").as_string());
  const std::string text = TextOf(item.if_contains("content"));
  if (role != "assistant") {
    messages.push_back(MessageOf(role == "developer" ? "system" : role.c_str(), text));
    return;
  }
  // Behind its thoughts.
  const bool goes_on = !messages.empty() && messages.back().at("content").is_null() &&
                       !messages.back().as_object().contains("tool_calls");
  AnswerIn(messages, goes_on)["content"] = text;
}

void AddReasoning(const json::object& item, json::array& messages) {
  std::string text = TextOf(item.if_contains("content"));
  if (text.empty()) text = TextOf(item.if_contains("summary"));
  if (!text.empty()) AnswerIn(messages, false)["reasoning_content"] = text;
}

void AddCall(const json::object& item, json::array& messages) {
  json::value arguments = item.at("arguments");
  ReadArguments(arguments);
  json::value& calls = AnswerIn(messages, true)["tool_calls"];
  if (!calls.is_array()) calls = json::array();
  calls.as_array().push_back(
      json::object{{"id", item.at("call_id")},
                   {"type", "function"},
                   {"function", {{"name", item.at("name")}, {"arguments", std::move(arguments)}}}});
}

// Templates know one system message, at the beginning.
void JoinSystem(json::array& messages) {
  while (messages.size() > 1 && messages[1].at("role") == "system") {
    json::string& first = messages[0].at("content").as_string();
    first += "\n\n";
    first += messages[1].at("content").as_string();
    messages.erase(messages.begin() + 1);
  }
}

}  // namespace

ApiResult<json::array> ReadItems(const json::value& input) {
  json::array items;
  if (input.is_string()) {
    auto message = ReadMessage({{"role", "user"}, {"content", input}}, "input");
    if (auto* error = std::get_if<ApiError>(&message)) return std::move(*error);
    items.push_back(std::move(std::get<json::object>(message)));
    return items;
  }
  if (!input.is_array()) return Refusal("input", input, "a text, or an array of items");
  for (size_t i = 0; i < input.as_array().size(); ++i) {
    auto item = ReadItem(input.as_array()[i], "input[" + std::to_string(i) + "]");
    if (auto* error = std::get_if<ApiError>(&item)) return std::move(*error);
    items.push_back(std::move(std::get<json::object>(item)));
  }
  return items;
}

json::array MessagesOf(const json::array& items, const std::string& instructions) {
  json::array messages;
  if (!instructions.empty()) messages.push_back(MessageOf("system", instructions));
  for (const json::value& value : items) {
    const json::object& item = value.as_object();
    const json::string& type = item.at("type").as_string();
    if (type == "message") {
      AddMessage(item, messages);
    } else if (type == "reasoning") {
      AddReasoning(item, messages);
    } else if (type == "function_call") {
      AddCall(item, messages);
    } else if (type == "function_call_output") {
      messages.push_back(json::object{
          {"role", "tool"}, {"tool_call_id", item.at("call_id")}, {"content", item.at("output")}});
    }
  }
  if (!instructions.empty()) JoinSystem(messages);
  for (json::value& message : messages) NameReasoning(message.as_object());
  return messages;
}

}  // namespace weft::api
