// OpenAI's older completions of a text, as a form of questions and answers.
#pragma once

#include <string>
#include <string_view>

#include "server/dialect.h"

namespace weft::server {

class TextDialect : public Dialect {
 public:
  std::string_view name() const override { return "text"; }
  api::ApiResult<Question> Read(std::string_view body, const std::string& salt,
                                const sampling::Parameters& defaults) const override;
  net::HttpResponse Error(const api::ApiError& error) const override;
};

}  // namespace weft::server
