// Ollama's chats and prompts, as forms of questions and answers.
#pragma once

#include <string>
#include <string_view>

#include "api/ollama_response.h"
#include "server/dialect.h"

namespace weft::server {

// POST /api/chat, POST /api/generate
class OllamaDialect : public Dialect {
 public:
  using Kind = api::OllamaAnswer::Kind;
  explicit OllamaDialect(Kind kind) : kind_(kind) {}

  std::string_view name() const override {
    return kind_ == Kind::kChat ? "ollama chat" : "ollama generate";
  }
  api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                const sampling::Parameters& defaults) const override;
  net::HttpResponse Error(const api::ApiError& error) const override;

 private:
  const Kind kind_;
};

net::HttpResponse OllamaErrorResponse(const api::ApiError& error);

}  // namespace weft::server
