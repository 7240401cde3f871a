// The JSON that /v1 answers with: chat completions, their streamed chunks, the list of models,
// errors.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Whether a request for `asked` means the model that is served: "", its name, and its name with the
// tag that some clients put behind names, ":latest".
bool IsServed(std::string_view asked, std::string_view served);
// That it does not.
ApiError NoSuchModel(const std::string& asked, const std::string& served);

// What /v1/models tells of the model: OpenAI's fields, and the length of its context and what it
// can do under the names that vLLM, OpenRouter and Ollama use.
struct ServedModel {
  std::string name;
  int64_t created = 0;  // Unix seconds
  uint32_t context_length = 0;
  std::vector<std::string> capabilities;  // ModelText::Capabilities
};
std::string ModelsJson(const ServedModel& model);
std::string ModelJson(const ServedModel& model);

// Identity of one completion, the same in all its chunks.
struct CompletionHead {
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // Unix seconds
  std::string model;
};

// {"id", "object", "created", "model"}
boost::json::object HeadJson(const CompletionHead& head, const char* object);
boost::json::object UsageObject(const Usage& usage);

// One "data: {...}\n\n" event of the choice `index`. `finish_reason` "" while streaming.
std::string ChunkEvent(const CompletionHead& head, uint32_t index, boost::json::object delta,
                       const std::string& finish_reason, boost::json::value logprobs = nullptr);
// The same as ChunkEvent(head, index, {{"content", text}}, ""), without building a tree: it is sent
// for every token.
std::string ContentEvent(const CompletionHead& head, uint32_t index, const std::string& text);
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
boost::json::object ChoiceJson(uint32_t index, boost::json::object message,
                               const std::string& finish_reason, boost::json::value logprobs);
std::string CompletionJson(const CompletionHead& head, boost::json::array choices,
                           const Usage& usage);

}  // namespace weft::api
