// Answers that many routes give: JSON, and errors in OpenAI's form.
#pragma once

#include <string>
#include <string_view>

#include "api/openai_request.h"
#include "net/http.h"

namespace weft::server {

// Of a stream of events. Clients that follow HTTP's old rules take text without a charset for
// Latin-1.
inline constexpr const char* kEventStreamType = "text/event-stream; charset=utf-8";

// JSON that no cache keeps.
net::HttpResponse JsonResponse(int status, std::string text);
// {"error": {...}}, with Retry-After where trying again may help (429, 503), and the kind of secret
// that is missing (401).
net::HttpResponse ErrorResponse(const api::ApiError& error);
// The same with a body in another form.
net::HttpResponse ErrorResponseWith(const api::ApiError& error, std::string json);

api::ApiError NothingAt(std::string_view path);
// The client has as much under way as one may have.
api::ApiError OverShare(std::string message);
// What the client's turn would have needed is held by others just now.
api::ApiError Overloaded(std::string message);

}  // namespace weft::server
