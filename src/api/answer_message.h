// What a model said as OpenAI's message: whole, or the deltas of a stream.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "chat/answer_events.h"

namespace weft::api {

// The id of a call that begins: the one that the model wrote, else `prefix` and something random.
// `short_ids`: nine letters and digits (chat::Format).
std::string CallId(const chat::Event& event, bool short_ids, const char* prefix);

class AnswerMessage {
 public:
  // `short_ids`: of CallId.
  explicit AnswerMessage(bool short_ids) : short_ids_(short_ids) {}

  // A delta for each event that has one. Those of a call: the first has its index, id, type, name
  // and arguments "", the others pieces of the arguments.
  std::vector<boost::json::object> Take(const std::vector<chat::Event>& events);

  const std::string& content() const { return content_; }
  bool has_calls() const { return !calls_.empty(); }
  // {"role": "assistant", "content": ...}, null where there are calls alone, with
  // reasoning_content and tool_calls where there are some.
  boost::json::object Message() const;

 private:
  boost::json::object BeginCall(const chat::Event& event);

  const bool short_ids_;
  std::string content_, reasoning_;
  boost::json::array calls_;
};

}  // namespace weft::api
