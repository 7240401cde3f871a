#include "api/text_response.h"

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <utility>

#include "text/utf8.h"

namespace weft::api {
namespace json = boost::json;

namespace {

constexpr const char* kObject = "text_completion";

std::string ShownToken(const TokenChance& chance) {
  if (utf8::FindInvalid(chance.bytes) == std::string::npos) return chance.text;
  constexpr const char* kDigits = "0123456789abcdef";
  std::string shown = "bytes:";
  for (const char c : chance.bytes) {
    const auto byte = static_cast<uint8_t>(c);
    shown += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return shown;
}

// Each has one byte that does not continue another.
uint64_t CharactersIn(const std::string& bytes) {
  return static_cast<uint64_t>(std::ranges::count_if(
      bytes, [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

json::array ChoicesOf(const std::string& text, const std::string& finish_reason,
                      json::value logprobs) {
  const json::value reason = finish_reason.empty() ? json::value() : json::value(finish_reason);
  return {json::object{
      {"text", text}, {"index", 0}, {"logprobs", std::move(logprobs)}, {"finish_reason", reason}}};
}

std::string EventOf(const json::object& object) {
  return "data: " + json::serialize(object) + "\n\n";
}

}  // namespace

json::object TextLogprobs::Take(const std::vector<SaidToken>& said) {
  json::array tokens, logprobs, top, offsets;
  for (const SaidToken& each : said) {
    tokens.emplace_back(ShownToken(each.token));
    logprobs.emplace_back(each.token.logprob);
    json::object others;
    for (const TokenChance& other : each.top) others[ShownToken(other)] = other.logprob;
    top.push_back(each.top.empty() ? json::value() : json::value(std::move(others)));
    offsets.emplace_back(offset_);
    offset_ += CharactersIn(each.token.bytes);
  }
  return {{"tokens", std::move(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"top_logprobs", std::move(top)},
          {"text_offset", std::move(offsets)}};
}

std::string TextEvent(const CompletionHead& head, const std::string& text,
                      const std::string& finish_reason, json::value logprobs) {
  json::object event = HeadJson(head, kObject);
  event["choices"] = ChoicesOf(text, finish_reason, std::move(logprobs));
  return EventOf(event);
}

std::string TextUsageEvent(const CompletionHead& head, const Usage& usage) {
  json::object event = HeadJson(head, kObject);
  event["choices"] = json::array();
  event["usage"] = UsageObject(usage);
  return EventOf(event);
}

std::string TextJson(const CompletionHead& head, const std::string& text,
                     const std::string& finish_reason, json::value logprobs, const Usage& usage) {
  json::object answer = HeadJson(head, kObject);
  answer["choices"] = ChoicesOf(text, finish_reason, std::move(logprobs));
  answer["usage"] = UsageObject(usage);
  return json::serialize(answer);
}

}  // namespace weft::api
