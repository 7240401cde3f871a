// OpenAI's chat completions, as a form of questions and answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/dialect.h"

namespace weft::server {

class ChatDialect : public Dialect {
 public:
  std::string_view name() const override { return "chat"; }
  api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                const sampling::Parameters& defaults) const override;
  net::HttpResponse Error(const api::ApiError& error) const override;
};

// What of a chat its answer's form depends on.
struct ChatForm {
  bool stream = false;
  bool include_usage = false;
  bool logprobs = false;
  uint32_t choices = 1;
};
inline ChatForm FormOf(const api::ChatRequest& chat) {
  return {chat.stream, chat.include_usage, chat.logprobs, chat.choices};
}

// `chat.completion`, or its chunks where a stream is asked for: a writer for each choice.
Writers WriteChat(const ChatForm& form, const AnswerHead& head,
                  std::shared_ptr<net::Responder> responder);

}  // namespace weft::server
