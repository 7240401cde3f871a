// The JSON that /v1 answers with: chat completions, their streamed chunks, the list of models,
// errors.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>

#include "api/answer.h"
#include "api/openai_request.h"
#include "swarm/events.h"
#include "swarm/snapshot.h"

namespace weft::api {

// Texts that are not UTF-8, such as what a client sent, come out with U+FFFD in place of what is
// not.
std::string ErrorJson(const ApiError& error);
// Such a text for other forms of errors.
std::string Utf8(const std::string& text);
// What an error of the core looks like to a client: status and type by code.
ApiError FromError(const Error& error);

// That `asked` is not the model that is served.
ApiError NoSuchModel(const std::string& asked, const std::string& served);

std::string ModelsJson(const std::string& model, int64_t created);
std::string ModelJson(const std::string& model, int64_t created);

// Identity of one completion, the same in all its chunks.
struct CompletionHead {
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // Unix seconds
  std::string model;
};

// One "data: {...}\n\n" event. `finish_reason` "" while streaming.
std::string ChunkEvent(const CompletionHead& head, boost::json::object delta,
                       const std::string& finish_reason, boost::json::value logprobs = nullptr);
// The same as ChunkEvent(head, {{"content", text}}, ""), without building a tree: it is sent for
// every token.
std::string ContentEvent(const CompletionHead& head, const std::string& text);
// The last event when usage was asked for: no choices.
std::string UsageEvent(const CompletionHead& head, const Usage& usage);
std::string ErrorEvent(const ApiError& error);
// An entry of `logprobs.content`.
boost::json::object LogprobJson(const SaidToken& said);
// "stop", "length" or "tool_calls".
std::string FinishReason(EndReason reason);
// A comment between events, which every reader of server-sent events skips, for pages that show how
// far a request without a token is: ": progress {...}\n\n" (docs/protocol.md).
std::string ProgressComment(const swarm::RequestProgress& progress);

// `message`: as api::AnswerMessage gives it.
std::string CompletionJson(const CompletionHead& head, boost::json::object message,
                           const std::string& finish_reason, const Usage& usage,
                           boost::json::value logprobs);

}  // namespace weft::api
