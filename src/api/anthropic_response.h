// What Anthropic's Messages API answers: a message, whole or as the events of a stream, and errors.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "api/answer.h"
#include "api/api_error.h"
#include "api/openai_response.h"
#include "chat/answer_events.h"

namespace weft::api {

// The status under which Anthropic's clients know the same: 529 for a server that is overloaded.
int AnthropicStatus(int status);
// {"type": "error", "error": {"type", "message"}}
std::string AnthropicErrorJson(const ApiError& error);
std::string AnthropicErrorEvent(const ApiError& error);
// Says that the stream lives.
std::string AnthropicPing();
// {"input_tokens": N}
std::string AnthropicCountJson(size_t prompt_tokens);

// GET /v1/models and /v1/models/NAME in Anthropic's form.
std::string AnthropicModelsJson(std::span<const ServedModel> models);
std::string AnthropicModelJson(const ServedModel& model);

// Of one answer. A stream's events are message_start, then blocks of content one after another,
// each with its start, deltas and stop, then message_delta and message_stop.
class AnthropicMessage {
 public:
  // `short_ids`: of CallId.
  AnthropicMessage(std::string id, std::string model, bool short_ids)
      : id_(std::move(id)), model_(std::move(model)), short_ids_(short_ids) {}

  std::string Begin(size_t prompt_tokens) const;
  // The events that tell these, which are kept, too.
  std::string Take(const std::vector<chat::Event>& events);
  std::string End(const AnswerEnd& end);
  // The message of what was taken, without a stream.
  std::string Whole(const AnswerEnd& end) const;

 private:
  enum class Kind { kText, kThinking, kCall };
  struct Block {
    Kind kind = Kind::kText;
    std::string text;  // arguments of a call, as JSON
    std::string id, name;
  };

  boost::json::object Head() const;
  static boost::json::object BlockJson(const Block& block);
  std::string Open(Block block);
  std::string OpenText(Kind kind);
  std::string Add(const char* delta, const char* field, std::string_view text);
  std::string Close();

  const std::string id_, model_;
  const bool short_ids_;
  std::vector<Block> blocks_;
  bool is_open_ = false;  // the last of them
};

}  // namespace weft::api
