// OpenAI's Responses API, as a form of questions and answers.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/dialect.h"
#include "server/response_store.h"

namespace weft::server {

class ResponsesDialect : public Dialect {
 public:
  // `counts`: the tokens of what is sent are counted, and it is not answered.
  ResponsesDialect(std::shared_ptr<ResponseStore> store, bool counts)
      : store_(std::move(store)), counts_(counts) {}

  std::string_view name() const override { return "responses"; }
  api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                const sampling::Parameters& defaults) const override;
  net::HttpResponse Error(const api::ApiError& error) const override;

 private:
  const std::shared_ptr<ResponseStore> store_;
  const bool counts_;
};

}  // namespace weft::server
