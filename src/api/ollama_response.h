// What Ollama's API answers: chats and prompts, as lines of JSON or one object, and what it tells
// of its models. docs/ollama.md says which fields mean something.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "api/answer.h"
#include "api/api_error.h"
#include "base/clock.h"
#include "chat/answer_events.h"

namespace weft::api {

// Gives a time as "2026-11-26T15:44:20.123456Z".
std::string Rfc3339(int64_t unix_us);
// Gives an error as {"error": "..."}.
std::string OllamaErrorJson(const ApiError& error);

// How long an answer took.
struct OllamaTimes {
  Duration total, load, prompt, answer;
};

// The texts of one answer: lines that each tell a piece, and a last one with counts and times; or
// one object with all of it. Lines end with a line break.
class OllamaAnswer {
 public:
  enum class Kind { kChat, kGenerate };
  // `short_ids` is CallId's.
  OllamaAnswer(Kind kind, std::string model, bool short_ids)
      : kind_(kind), model_(std::move(model)), short_ids_(short_ids) {}

  // Gives the lines that tell these, which are kept, too.
  std::string Take(const std::vector<chat::Event>& events, const std::vector<SaidToken>& said,
                   int64_t now_us);
  // Gives a line that says nothing.
  std::string Alive(int64_t now_us) const;
  std::string Last(const AnswerEnd& end, const OllamaTimes& times, int64_t now_us) const;
  // Gives the one object of an answer without a stream.
  std::string Whole(const AnswerEnd& end, const OllamaTimes& times, int64_t now_us) const;
  // Gives the answer where nothing was asked: `reason` is "load" or "unload".
  std::string Loaded(const std::string& reason, int64_t now_us) const;

 private:
  struct Piece {
    std::string content, thinking;
    boost::json::array calls;
  };
  boost::json::object Object(const Piece& piece, int64_t now_us) const;
  boost::json::object LastObject(const Piece& piece, const AnswerEnd& end, const OllamaTimes& times,
                                 int64_t now_us) const;
  boost::json::object CallJson() const;

  const Kind kind_;
  const std::string model_;
  const bool short_ids_;
  Piece all_;
  boost::json::array logprobs_;
  std::string call_id_, call_name_, call_arguments_;  // of the call that is coming
};

}  // namespace weft::api
