#include "api/responses_answer.h"

#include <boost/json/serialize.hpp>

#include "api/answer_message.h"
#include "api/openai_response.h"
#include "base/random.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr size_t kIdBytes = 16;

json::object UsageOf(const Usage& usage) {
  json::object told = {{"input_tokens", usage.prompt_tokens},
                       {"input_tokens_details", {{"cached_tokens", usage.cached_prompt_tokens}}},
                       {"output_tokens", usage.completion_tokens},
                       {"output_tokens_details", {{"reasoning_tokens", usage.thinking_tokens}}},
                       {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
  if (usage.lost_groups) told["lost_groups"] = *usage.lost_groups;
  return told;
}

}  // namespace

// The part of a message, of thoughts or of their summary that holds the text so far.
json::object ResponsesAnswer::PartJson(const Item& item) const {
  if (item.kind == Kind::kReasoning)
    return {{"type", form_.summarises ? "summary_text" : "reasoning_text"}, {"text", item.text}};
  return {{"type", "output_text"},
          {"annotations", json::array()},
          {"logprobs", item.logprobs},
          {"text", item.text}};
}

json::object ResponsesAnswer::ItemJson(const Item& item) const {
  const bool is_new = item.status == std::string_view("in_progress") && item.text.empty();
  json::array parts;
  if (!is_new) parts.push_back(PartJson(item));
  switch (item.kind) {
    case Kind::kMessage:
      return {{"id", item.id},
              {"type", "message"},
              {"status", item.status},
              {"role", "assistant"},
              {"content", std::move(parts)}};
    case Kind::kReasoning: {
      json::array none;
      return {{"id", item.id},
              {"type", "reasoning"},
              {"status", item.status},
              {"summary", form_.summarises ? parts : none},
              {"content", form_.summarises ? none : parts}};
    }
    case Kind::kCall:
      break;
  }
  return {{"id", item.id},          {"type", "function_call"}, {"status", item.status},
          {"arguments", item.text}, {"call_id", item.call_id}, {"name", item.name}};
}

json::object ResponsesAnswer::ResponseJson(const char* status) const {
  json::object response = head_;
  response["object"] = "response";
  response["status"] = status;
  response["error"] = nullptr;
  response["incomplete_details"] = nullptr;
  json::array output;
  for (const Item& item : items_) output.push_back(ItemJson(item));
  response["output"] = std::move(output);
  response["usage"] = nullptr;
  return response;
}

std::string ResponsesAnswer::Event(const char* type, json::object fields) {
  if (!form_.stream) return "";
  json::object event = {{"type", type}, {"sequence_number", next_number_++}};
  for (auto& [key, value] : fields) event[key] = std::move(value);
  return "event: " + std::string(type) + "\ndata: " + json::serialize(event) + "\n\n";
}

// Of the last item.
std::string ResponsesAnswer::ItemEvent(const char* type, json::object fields) {
  if (!form_.stream) return "";
  fields["item_id"] = items_.back().id;
  fields["output_index"] = items_.size() - 1;
  if (items_.back().kind != Kind::kCall)
    fields[UnlessSummary("content_index", "summary_index")] = 0;
  return Event(type, std::move(fields));
}

// What is named otherwise of a summary.
const char* ResponsesAnswer::UnlessSummary(const char* text, const char* summary) const {
  return form_.summarises && items_.back().kind == Kind::kReasoning ? summary : text;
}

std::string ResponsesAnswer::Begin() {
  std::string events = Event("response.created", {{"response", ResponseJson("in_progress")}});
  return events += Event("response.in_progress", {{"response", ResponseJson("in_progress")}});
}

std::string ResponsesAnswer::Open(Item item) {
  std::string events = Close("completed");
  items_.push_back(std::move(item));
  is_open_ = true;
  const Item& opened = items_.back();
  events += Event("response.output_item.added",
                  {{"output_index", items_.size() - 1}, {"item", ItemJson(opened)}});
  if (opened.kind == Kind::kCall) return events;
  return events += ItemEvent(
             UnlessSummary("response.content_part.added", "response.reasoning_summary_part.added"),
             {{"part", PartJson(opened)}});
}

std::string ResponsesAnswer::OpenText(Kind kind) {
  if (is_open_ && items_.back().kind == kind) return "";
  Item item;
  item.kind = kind;
  item.id = (kind == Kind::kMessage ? "msg_" : "rs_") + SecureRandomHex(kIdBytes);
  return Open(std::move(item));
}

std::string ResponsesAnswer::AddText(const std::string& text, const std::vector<SaidToken>& said) {
  Item& item = items_.back();
  item.text += text;
  if (item.kind == Kind::kReasoning)
    return ItemEvent(
        UnlessSummary("response.reasoning_text.delta", "response.reasoning_summary_text.delta"),
        {{"delta", text}});
  json::array logprobs;
  for (const SaidToken& token : said) logprobs.push_back(LogprobJson(token));
  item.logprobs.insert(item.logprobs.end(), logprobs.begin(), logprobs.end());
  return ItemEvent("response.output_text.delta",
                   {{"delta", text}, {"logprobs", std::move(logprobs)}});
}

std::string ResponsesAnswer::Take(const std::vector<chat::Event>& events,
                                  const std::vector<SaidToken>& said) {
  std::string told;
  // They come with the text that they begin.
  std::vector<SaidToken> tokens = form_.logprobs ? said : std::vector<SaidToken>();
  for (const chat::Event& event : events) {
    switch (event.kind) {
      case chat::EventKind::kContent:
        told += OpenText(Kind::kMessage);
        told += AddText(event.text, std::exchange(tokens, {}));
        break;
      case chat::EventKind::kReasoning:
        told += OpenText(Kind::kReasoning);
        told += AddText(event.text, {});
        break;
      case chat::EventKind::kCallBegins: {
        Item call;
        call.kind = Kind::kCall;
        call.id = "fc_" + SecureRandomHex(kIdBytes);
        call.call_id = CallId(event, form_.short_ids, "call_");
        call.name = event.text;
        told += Open(std::move(call));
        break;
      }
      case chat::EventKind::kArguments:
        items_.back().text += event.text;
        told += ItemEvent("response.function_call_arguments.delta", {{"delta", event.text}});
        break;
      case chat::EventKind::kCallEnds:
        told += Close("completed");
        break;
    }
  }
  return told;
}

std::string ResponsesAnswer::CloseText(const Item& item) {
  if (item.kind == Kind::kCall)
    return ItemEvent("response.function_call_arguments.done",
                     {{"name", item.name}, {"arguments", item.text}});
  const bool thought = item.kind == Kind::kReasoning;
  json::object done = {{"text", item.text}};
  if (!thought) done["logprobs"] = item.logprobs;
  std::string events = ItemEvent(thought ? UnlessSummary("response.reasoning_text.done",
                                                         "response.reasoning_summary_text.done")
                                         : "response.output_text.done",
                                 std::move(done));
  return events += ItemEvent(
             UnlessSummary("response.content_part.done", "response.reasoning_summary_part.done"),
             {{"part", PartJson(item)}});
}

std::string ResponsesAnswer::Close(const char* status) {
  if (!is_open_) return "";
  is_open_ = false;
  Item& item = items_.back();
  std::string events = CloseText(item);
  item.status = status;
  return events += Event("response.output_item.done",
                         {{"output_index", items_.size() - 1}, {"item", ItemJson(item)}});
}

std::string ResponsesAnswer::End(const AnswerEnd& end, int64_t now_s) {
  const bool is_whole = end.reason != EndReason::kLength;
  const char* status = is_whole ? "completed" : "incomplete";
  std::string events;
  // Clients look for a message.
  if (items_.empty()) events = OpenText(Kind::kMessage);
  events += Close(status);
  response_ = ResponseJson(status);
  if (is_whole) {
    response_["completed_at"] = now_s;
  } else {
    response_["incomplete_details"] = json::object{{"reason", "max_output_tokens"}};
  }
  response_["usage"] = UsageOf(end.usage);
  return events +
         Event(is_whole ? "response.completed" : "response.incomplete", {{"response", response_}});
}

std::string ResponsesAnswer::Fail(const ApiError& error) {
  response_ = ResponseJson("failed");
  response_["error"] =
      json::object{{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
                   {"message", Utf8(error.message)}};
  return Event("response.failed", {{"response", response_}});
}

}  // namespace weft::api
