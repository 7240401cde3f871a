#include "api/ollama_response.h"

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <ctime>
#include <utility>

#include "api/answer_message.h"
#include "api/openai_response.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr int64_t kUsPerSecond = 1'000'000;

int64_t Nanoseconds(Duration duration) {
  return duration.us * 1000;
}

std::string Line(const json::object& object) {
  return json::serialize(object) + "\n";
}

}  // namespace

std::string Rfc3339(int64_t unix_us) {
  const std::time_t seconds = unix_us / kUsPerSecond;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  std::snprintf(text, sizeof(text), "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", utc.tm_year + 1900,
                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                static_cast<int>(unix_us % kUsPerSecond));
  return text;
}

std::string OllamaErrorJson(const ApiError& error) {
  return json::serialize(json::object{{"error", Utf8(error.message)}});
}

json::object OllamaAnswer::Object(const Piece& piece, int64_t now_us) const {
  json::object object = {{"model", model_}, {"created_at", Rfc3339(now_us)}};
  if (kind_ == Kind::kGenerate) {
    object["response"] = piece.content;
    if (!piece.thinking.empty()) object["thinking"] = piece.thinking;
  } else {
    json::object message = {{"role", "assistant"}, {"content", piece.content}};
    if (!piece.thinking.empty()) message["thinking"] = piece.thinking;
    if (!piece.calls.empty()) message["tool_calls"] = piece.calls;
    object["message"] = std::move(message);
  }
  object["done"] = false;
  return object;
}

json::object OllamaAnswer::LastObject(const Piece& piece, const AnswerEnd& end,
                                      const OllamaTimes& times, int64_t now_us) const {
  json::object object = Object(piece, now_us);
  object["done"] = true;
  object["done_reason"] = end.reason == EndReason::kLength ? "length" : "stop";
  object["total_duration"] = Nanoseconds(times.total);
  object["load_duration"] = Nanoseconds(times.load);
  object["prompt_eval_count"] = end.usage.prompt_tokens;
  object["prompt_eval_duration"] = Nanoseconds(times.prompt);
  object["eval_count"] = end.usage.completion_tokens;
  object["eval_duration"] = Nanoseconds(times.answer);
  return object;
}

// Calls are told whole there, their arguments as an object.
json::object OllamaAnswer::CallJson() const {
  boost::system::error_code not_json;
  json::value arguments = json::parse(call_arguments_, not_json);
  if (not_json || !arguments.is_object()) arguments = json::object();
  return {
      {"id", call_id_},
      {"function",
       {{"index", all_.calls.size()}, {"name", call_name_}, {"arguments", std::move(arguments)}}}};
}

std::string OllamaAnswer::Take(const std::vector<chat::Event>& events,
                               const std::vector<SaidToken>& said, int64_t now_us) {
  std::vector<Piece> pieces;
  for (const chat::Event& event : events) {
    switch (event.kind) {
      case chat::EventKind::kContent:
        all_.content += event.text;
        pieces.push_back({event.text, "", {}});
        break;
      case chat::EventKind::kReasoning:
        all_.thinking += event.text;
        pieces.push_back({"", event.text, {}});
        break;
      case chat::EventKind::kCallBegins:
        call_id_ = CallId(event, short_ids_, "call_");
        call_name_ = event.text;
        call_arguments_.clear();
        break;
      case chat::EventKind::kArguments:
        call_arguments_ += event.text;
        break;
      case chat::EventKind::kCallEnds: {
        json::object call = CallJson();
        pieces.push_back({"", "", {call}});
        all_.calls.push_back(std::move(call));
        break;
      }
    }
  }
  json::array logprobs;
  for (const SaidToken& token : said) logprobs.push_back(LogprobJson(token));
  for (const json::value& entry : logprobs) logprobs_.push_back(entry);
  if (pieces.empty() && !logprobs.empty()) pieces.emplace_back();
  std::string lines;
  for (const Piece& piece : pieces) {
    json::object object = Object(piece, now_us);
    if (!logprobs.empty()) object["logprobs"] = std::exchange(logprobs, {});
    lines += Line(object);
  }
  return lines;
}

std::string OllamaAnswer::Alive(int64_t now_us) const {
  return Line(Object({}, now_us));
}

std::string OllamaAnswer::Last(const AnswerEnd& end, const OllamaTimes& times,
                               int64_t now_us) const {
  return Line(LastObject({}, end, times, now_us));
}

std::string OllamaAnswer::Whole(const AnswerEnd& end, const OllamaTimes& times,
                                int64_t now_us) const {
  json::object object = LastObject(all_, end, times, now_us);
  if (!logprobs_.empty()) object["logprobs"] = logprobs_;
  return json::serialize(object);
}

std::string OllamaAnswer::Loaded(const std::string& reason, int64_t now_us) const {
  json::object object = Object({}, now_us);
  object["done"] = true;
  object["done_reason"] = reason;
  return json::serialize(object);
}

}  // namespace weft::api
