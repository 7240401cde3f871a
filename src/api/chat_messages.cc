#include "api/chat_messages.h"

#include <boost/json/parse.hpp>
#include <utility>

#include "api/field_reader.h"

namespace weft::api {
namespace json = boost::json;

// Clients send thoughts back under either name; templates look for one of three. gpt-oss's refuses
// thoughts beside the content of a message with calls, which it takes for them.
void NameReasoning(json::object& message) {
  const json::value* thoughts = message.if_contains("reasoning_content");
  if (thoughts == nullptr || thoughts->is_null()) thoughts = message.if_contains("reasoning");
  if (thoughts == nullptr || !thoughts->is_string()) return;
  const json::value text = *thoughts;
  message["reasoning_content"] = text;
  message.emplace("reasoning", text);
  const json::value* content = message.if_contains("content");
  const bool has_content = content != nullptr && content->is_string() && *content != "";
  if (!has_content || !message.contains("tool_calls")) message.emplace("thinking", text);
}

void ReadArguments(json::value& arguments) {
  if (!arguments.is_string()) return;
  json::parse_options options;
  options.max_depth = kMaxBodyDepth;
  boost::system::error_code error;
  json::value parsed = json::parse(arguments.as_string(), error, {}, options);
  if (!error && parsed.is_object()) arguments = std::move(parsed);
}

json::object MessageOf(const char* role, std::string text) {
  return {{"role", role}, {"content", std::move(text)}};
}

}  // namespace weft::api
