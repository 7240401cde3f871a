// The JSON that /v1 answers with: chat completions, their streamed chunks, the list of models,
// errors.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <span>
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
// Gives such a text for other forms of errors.
std::string Utf8(const std::string& text);
// Gives what an error of the core looks like to a client: status and type by code.
ApiError FromError(const Error& error);

// Tells whether a request for `asked` means the model that is served. Its name does, also with the
// tag that some clients put behind names (":latest"), and so does "".
bool IsServed(std::string_view asked, std::string_view served);
// Gives the answer that it does not.
ApiError NoSuchModel(const std::string& asked, const std::string& served);
// Gives the same of a server with several, with the one that may have been meant.
ApiError NoSuchModel(const std::string& asked, std::span<const std::string> served);

// What /v1/models tells of the model: OpenAI's fields, its context's length and what it can do. The
// last two have the names that vLLM, OpenRouter and Ollama use.
struct ServedModel {
  std::string name;
  int64_t created = 0;  // Unix seconds
  uint32_t context_length = 0;
  std::vector<std::string> capabilities;  // ModelText::Capabilities
  std::string state = {};  // "on disk", "loading", "loaded", "unloading"; "" is not told
};
std::string ModelsJson(std::span<const ServedModel> models);
std::string ModelJson(const ServedModel& model);

// The identity of one completion is the same in all its chunks.
struct CompletionHead {
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // Unix seconds
  std::string model;
};

// Gives the model as {"id", "object", "created", "model"}.
boost::json::object HeadJson(const CompletionHead& head, const char* object);
boost::json::object UsageObject(const Usage& usage);

// Gives one "data: {...}\n\n" event of the choice `index`. `finish_reason` is "" while streaming.
std::string ChunkEvent(const CompletionHead& head, uint32_t index, boost::json::object delta,
                       const std::string& finish_reason, boost::json::value logprobs = nullptr);
// Gives the same as ChunkEvent(head, index, {{"content", text}}, ""), without building a tree: it
// is sent for every token.
std::string ContentEvent(const CompletionHead& head, uint32_t index, const std::string& text);
// Gives the last event when usage was asked for, which has no choices.
std::string UsageEvent(const CompletionHead& head, const Usage& usage);
std::string ErrorEvent(const ApiError& error);
// Gives an entry of `logprobs.content`.
boost::json::object LogprobJson(const SaidToken& said);
// Gives "stop", "length" or "tool_calls".
std::string FinishReason(EndReason reason);
// Gives a comment between events: ": progress {...}\n\n" (docs/protocol.md). Every reader of
// server-sent events skips it. Pages show by it how far a request without a token is.
std::string ProgressComment(const swarm::RequestProgress& progress);
// The same while devices load the model: ": progress {"loading":"qwen3-8b","percent":40}\n\n".
std::string LoadingComment(const std::string& model, std::optional<uint32_t> percent);
// While the answer moves to another server, at any place of it.
inline constexpr const char* kMovingComment = ": progress {\"moving\":true}\n\n";

// Gives the whole answer. `message` is what api::AnswerMessage gives.
boost::json::object ChoiceJson(uint32_t index, boost::json::object message,
                               const std::string& finish_reason, boost::json::value logprobs);
std::string CompletionJson(const CompletionHead& head, boost::json::array choices,
                           const Usage& usage);

}  // namespace weft::api
