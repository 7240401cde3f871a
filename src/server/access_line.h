// The line of the log that every request leaves: who asked what, what became of it, how long it
// took. Never prompts, answers, secrets, or what stands behind '?'.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "net/http.h"

namespace weft::server {

struct AccessLine {
  std::string request_id, method, path, address;
  std::string key;    // name of the named key; "": none was shown
  std::string model;  // "": it was no question to one
  int status = 0;
  uint64_t byte_count = 0;  // of the answer's body
  Instant begun;
  std::optional<Duration> first_token;
  uint32_t prompt_tokens = 0, generated_tokens = 0;
  bool is_cut_off = false;  // the client went away first
  // It showed a secret, or came as the user who needs none: such lines are never left out.
  bool is_admitted = false;
};

// The request's X-Request-Id where that is 1 to 128 letters, digits, '.', '_', ':' and '-';
// otherwise a new one.
std::string RequestIdOf(const net::HttpRequest& request);

// What is no printable character of ASCII, and '"', '%' and '\', as %XX: so that a line is one
// line, and no byte of a stranger reaches a terminal.
std::string Printable(std::string_view text);

// Writes it now.
void WriteAccessLine(const AccessLine& line);

}  // namespace weft::server
