// What the Responses API answers: a response, whole or as the typed events of a stream, each with
// its number.
//
//   response.created, response.in_progress
//   response.output_item.added, response.content_part.added     of each item: a message, thoughts
//   response.output_text.delta..., response.output_text.done    or a call, one after another
//   response.content_part.done, response.output_item.done
//   response.completed | response.incomplete | response.failed
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "api/api_error.h"
#include "chat/answer_events.h"

namespace weft::api {

class ResponsesAnswer {
 public:
  struct Form {
    bool stream = false;      // else all events are ""
    bool summarises = false;  // thoughts are told as their summary
    bool logprobs = false;
    bool short_ids = false;  // of CallId
  };
  // `head`: id, created_at, model and what the request said.
  ResponsesAnswer(boost::json::object head, const Form& form)
      : head_(std::move(head)), form_(form) {}

  // The events of each. Thoughts and calls have no logprobs.
  std::string Begin();
  std::string Take(const std::vector<chat::Event>& events, const std::vector<SaidToken>& said);
  std::string End(const AnswerEnd& end, int64_t now_s);
  std::string Fail(const ApiError& error);

  // After End: the response, and its items as ReadItems would give them.
  const boost::json::object& response() const { return response_; }
  const boost::json::array& items() const { return response_.at("output").as_array(); }

 private:
  enum class Kind { kMessage, kReasoning, kCall };
  struct Item {
    Kind kind = Kind::kMessage;
    std::string id;
    std::string text;  // of a call: its arguments
    std::string call_id, name;
    boost::json::array logprobs;
    const char* status = "in_progress";
  };

  boost::json::object ItemJson(const Item& item) const;
  boost::json::object PartJson(const Item& item) const;
  boost::json::object ResponseJson(const char* status) const;
  std::string Event(const char* type, boost::json::object fields);
  std::string ItemEvent(const char* type, boost::json::object fields);
  const char* UnlessSummary(const char* text, const char* summary) const;

  std::string Open(Item item);
  std::string OpenText(Kind kind);
  std::string AddText(const std::string& text, const std::vector<SaidToken>& said);
  std::string Close(const char* status);
  std::string CloseText(const Item& item);

  const boost::json::object head_;
  const Form form_;
  std::vector<Item> items_;
  bool is_open_ = false;  // the last of them
  uint64_t next_number_ = 0;
  boost::json::object response_;
};

}  // namespace weft::api
