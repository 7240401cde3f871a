#include "server/responses.h"

#include "api/openai_response.h"

namespace weft::server {
namespace {

// A guess at when a place is free or a device is back: soon enough for people, and clients that
// double it from there do no harm.
constexpr const char* kRetryAfterSeconds = "5";

}  // namespace

net::HttpResponse JsonResponse(int status, std::string text) {
  net::HttpResponse response = net::TextResponse(status, "application/json", std::move(text));
  response.headers.emplace_back("Cache-Control", "no-store");
  return response;
}

net::HttpResponse ErrorResponse(const api::ApiError& error) {
  return ErrorResponseWith(error, api::ErrorJson(error));
}

net::HttpResponse ErrorResponseWith(const api::ApiError& error, std::string json) {
  net::HttpResponse response = JsonResponse(error.status, std::move(json));
  if (error.status == 429 || error.status == 503) {
    response.headers.emplace_back("Retry-After", kRetryAfterSeconds);
  }
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

api::ApiError NothingAt(std::string_view path) {
  return {404, "There is nothing at " + std::string(path.substr(0, 200)) + ".",
          "invalid_request_error", "", "not_found"};
}

api::ApiError OverShare(std::string message) {
  return {429, std::move(message), "rate_limit_error", "", "limit_exceeded"};
}

api::ApiError Overloaded(std::string message) {
  return {503, std::move(message), "overloaded_error", "", "unavailable"};
}

}  // namespace weft::server
