// An answer in nobody's form: what the forms of OpenAI and others are written from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::api {

struct Usage {
  uint32_t prompt_tokens = 0;
  uint32_t cached_prompt_tokens = 0;
  uint32_t completion_tokens = 0;
  // Neuron groups that tokens had to do without; nullopt: nothing may be lost.
  std::optional<uint64_t> lost_groups = std::nullopt;
  uint32_t thinking_tokens = 0;  // of those of the answer, markers included
};

enum class EndReason {
  kStop,    // the model's own end, or a stop string
  kLength,  // no more tokens were allowed
  kCalls,   // the answer calls tools
};

struct AnswerEnd {
  EndReason reason = EndReason::kStop;
  std::string stop_string;  // that ended it; "": none did
  Usage usage;
};

// A token that the model might have said.
struct TokenChance {
  std::string text;   // what it decodes to alone
  std::string bytes;  // what it stands for, which may be a part of a character
  float logprob = 0;
};

// A token that it said, with the likeliest in its place where those are asked for.
struct SaidToken {
  TokenChance token;
  std::vector<TokenChance> top;
};

}  // namespace weft::api
