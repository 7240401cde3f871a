#include "api/answer_message.h"

#include "base/random.h"

namespace weft::api {
namespace json = boost::json;

std::string CallId(const chat::Event& event, bool short_ids, const char* prefix) {
  if (!event.id.empty()) return event.id;
  return short_ids ? SecureRandomHex(5).substr(0, 9) : prefix + SecureRandomHex(12);
}

json::object AnswerMessage::BeginCall(const chat::Event& event) {
  const std::string id = CallId(event, short_ids_, "call_");
  json::object call = {
      {"id", id}, {"type", "function"}, {"function", {{"name", event.text}, {"arguments", ""}}}};
  calls_.push_back(call);
  json::object delta = {{"index", event.call_index}};
  for (auto& [name, value] : call) delta[name] = std::move(value);
  return delta;
}

std::vector<json::object> AnswerMessage::Take(const std::vector<chat::Event>& events) {
  std::vector<json::object> deltas;
  for (const chat::Event& event : events) {
    switch (event.kind) {
      case chat::EventKind::kContent:
        content_ += event.text;
        deltas.push_back({{"content", event.text}});
        break;
      case chat::EventKind::kReasoning:
        reasoning_ += event.text;
        deltas.push_back({{"reasoning_content", event.text}});
        break;
      case chat::EventKind::kCallBegins:
        deltas.push_back({{"tool_calls", json::array{BeginCall(event)}}});
        break;
      case chat::EventKind::kArguments: {
        json::value& arguments =
            calls_.at(event.call_index).as_object()["function"].as_object()["arguments"];
        arguments.as_string() += event.text;
        const json::object piece = {{"index", event.call_index},
                                    {"function", {{"arguments", event.text}}}};
        deltas.push_back({{"tool_calls", json::array{piece}}});
        break;
      }
      case chat::EventKind::kCallEnds:
        break;
    }
  }
  return deltas;
}

json::object AnswerMessage::Message() const {
  json::object message = {{"role", "assistant"}, {"content", content_}, {"refusal", nullptr}};
  if (content_.empty() && !calls_.empty()) message["content"] = nullptr;
  if (!reasoning_.empty()) message["reasoning_content"] = reasoning_;
  if (!calls_.empty()) message["tool_calls"] = calls_;
  return message;
}

}  // namespace weft::api
