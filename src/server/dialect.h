// Dialect: the form in which a kind of client asks and wants to be answered. One reads a body into
// what the model is asked, makes the writers of its answer, and says errors in its own words.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/model_text.h"
#include "api/openai_request.h"
#include "net/http.h"
#include "server/answer_writer.h"

namespace weft::server {

// What an answer says of itself, whatever its form. `text` outlives all answers.
struct AnswerHead {
  int64_t created_s = 0;  // Unix time
  std::string model;
  const api::ModelText& text;
  size_t prompt_tokens = 0;
};

// What a body comes to.
struct Question {
  api::ChatRequest chat;
  // In place of `chat.messages`: a text as it is, or its tokens.
  std::optional<std::variant<std::string, std::vector<int32_t>>> prompt;
  // Called once, on the loop, when the core is to be asked.
  std::function<Writers(const AnswerHead&, std::shared_ptr<net::Responder>)> write;
  // Set: nothing is generated, and this is answered of the number of the prompt's tokens.
  std::function<net::HttpResponse(size_t prompt_tokens)> count;
};

class Dialect {
 public:
  virtual ~Dialect() = default;

  // Of what kind its bodies are: an Idempotency-Key is for one body of one kind.
  virtual std::string_view name() const = 0;
  // On any thread. `salt`: whose computations, and what else is kept, the sender shares
  // (net::HttpRequest::salt). `defaults`: how the model wants to be sampled.
  virtual api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                        const sampling::Parameters& defaults) const = 0;
  // An answer that is none, with its status.
  virtual net::HttpResponse Error(const api::ApiError& error) const = 0;
};

}  // namespace weft::server
