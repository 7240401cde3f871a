// What POST /v1/completions answers: OpenAI's text_completion, whole or as the events of a stream.
#pragma once

#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/openai_response.h"

namespace weft::api {

// The older form of logprobs: four lists with an entry for each token.
class TextLogprobs {
 public:
  // {"tokens", "token_logprobs", "top_logprobs", "text_offset"} of these tokens, which follow those
  // of earlier calls. Offsets are in characters of the answer. A token that is no whole character
  // is shown by its bytes, "bytes:\xe2\x80".
  boost::json::object Take(const std::vector<SaidToken>& said);

 private:
  uint64_t offset_ = 0;
};

// An event with a piece of the text. `finish_reason` "" while streaming.
std::string TextEvent(const CompletionHead& head, const std::string& text,
                      const std::string& finish_reason, boost::json::value logprobs);
std::string TextUsageEvent(const CompletionHead& head, const Usage& usage);
std::string TextJson(const CompletionHead& head, const std::string& text,
                     const std::string& finish_reason, boost::json::value logprobs,
                     const Usage& usage);

}  // namespace weft::api
