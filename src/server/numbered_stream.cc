#include "server/numbered_stream.h"

#include <charconv>
#include <utility>

namespace weft::server {
namespace {

// What is no part of the answer: how it ended, well or not.
bool IsEnd(std::string_view event) {
  return event.starts_with("data: [DONE]") || event.starts_with("data: {\"error\":");
}

api::ApiError Refused(std::string sentence) {
  return {400, std::move(sentence), "invalid_request_error", "Last-Event-ID",
          "invalid_last_event_id"};
}

}  // namespace

api::ApiResult<uint64_t> ParseLastEventId(std::string_view header, std::string_view key) {
  if (header.empty()) return uint64_t{0};
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(header.data(), header.data() + header.size(), number);
  if (error != std::errc() || end != header.data() + header.size())
    return Refused("The header Last-Event-ID is '" + std::string(header.substr(0, 40)) +
                   "'; expected the id of an event, such as 17.");
  if (key.empty())
    return Refused(
        "The header Last-Event-ID goes with the Idempotency-Key of the request whose answer was "
        "cut.");
  return number;
}

// One call may have several events.
void NumberedStream::Write(std::string chunk) {
  std::string out;
  std::string_view rest = chunk;
  while (!rest.empty()) {
    const size_t end = rest.find("\n\n");
    const std::string_view event =
        rest.substr(0, end == std::string_view::npos ? rest.size() : end + 2);
    rest.remove_prefix(event.size());
    if (event.starts_with(':') || IsEnd(event)) {
      out += event;
      continue;
    }
    if (++count_ <= known_) continue;
    out += "id: " + std::to_string(count_) + "\n";
    out += event;
  }
  if (!out.empty()) responder_->Write(std::move(out));
}

}  // namespace weft::server
