// A responder that is told what a model's answer comes to, for the line that it leaves in the log
// (access_line.h).
#pragma once

#include <cstdint>
#include <string>

#include "net/http.h"

namespace weft::server {

class CountedResponder : public net::Responder {
 public:
  // A token was made; the first one is timed.
  virtual void CountToken() = 0;
  // One of the call's answers has ended. Several add up; the first one's prompt counts.
  virtual void CountEnd(const std::string& model, uint32_t prompt_tokens,
                        uint32_t generated_tokens) = 0;
};

}  // namespace weft::server
