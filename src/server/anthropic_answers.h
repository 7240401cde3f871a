// Anthropic's Messages API, as a form of questions and answers.
#pragma once

#include <string>
#include <string_view>

#include "api/openai_response.h"
#include "server/dialect.h"

namespace weft::server {

// POST /v1/messages
class AnthropicDialect : public Dialect {
 public:
  std::string_view name() const override { return "messages"; }
  api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                const sampling::Parameters& defaults) const override;
  net::HttpResponse Error(const api::ApiError& error) const override;
};

// POST /v1/messages/count_tokens
class AnthropicCountDialect : public AnthropicDialect {
 public:
  api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                const sampling::Parameters& defaults) const override;
};

// Whether one of its clients asks, where a path is OpenAI's, too.
bool IsOfAnthropic(const net::HttpRequest& request);
net::HttpResponse AnthropicModels(std::span<const api::ServedModel> served);
net::HttpResponse AnthropicModel(const api::ServedModel& served, const std::string& asked);

net::HttpResponse AnthropicErrorResponse(const api::ApiError& error);

}  // namespace weft::server
