// What an answer of /v1 is when it is none: OpenAI's error object and its status.
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace weft::api {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param;  // "" becomes null
  std::string code;   // "" becomes null
};

// A request whose field `param` cannot be followed: 400.
inline ApiError RefuseField(std::string param, std::string message) {
  ApiError error;
  error.message = std::move(message);
  error.param = std::move(param);
  return error;
}

template <typename T>
using ApiResult = std::variant<T, ApiError>;

}  // namespace weft::api
