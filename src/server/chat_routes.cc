#include "server/chat_routes.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>
#include <variant>

#include "api/openai_response.h"
#include "api/token_grammar.h"
#include "base/random.h"
#include "server/completion.h"
#include "server/responses.h"
#include "swarm/flow/fair_queue.h"

namespace weft::server {
namespace json = boost::json;

namespace {

// A long conversation takes one of them for a second or so; two, so that a short one goes past it.
constexpr unsigned kPromptThreads = 2;
// Bodies that wait for them, and their bytes in all but the one that goes beyond.
constexpr size_t kMaxWaitingPrompts = 64;
constexpr size_t kMaxWaitingBytes = 256 << 20;

uint64_t RandomSeed() {
  uint64_t seed = 0;
  uint8_t bytes[sizeof(seed)];
  SecureRandomBytes(bytes);
  std::memcpy(&seed, bytes, sizeof(seed));
  return seed;
}

// In /v1/prefixes/NAME.
std::string NameIn(const net::HttpRequest& request) {
  return request.path.substr(std::string_view("/v1/prefixes/").size());
}

json::object PrefixJson(const KeptPrefixes::Prefix& prefix) {
  return {{"id", prefix.name},
          {"object", "prefix"},
          {"created", prefix.asked_at_s},
          {"tokens", prefix.token_ids.size()},
          {"status", prefix.is_kept ? "kept" : "computing"}};
}

}  // namespace

struct ChatRoutes::Prompt {
  Asked asked;
  std::optional<api::ApiError> error;
  std::optional<KeyedCall> call;
  api::ChatRequest chat;
  std::vector<int32_t> opening;  // that is to be kept
  std::vector<int32_t> ids;
  std::vector<uint32_t> marks;  // swarm::Request::marks
  AnswerReading reading;
  std::shared_ptr<const sampling::Constraint> constraint;
  // The same of an answer whose thoughts were ended.
  std::shared_ptr<const sampling::Constraint> form_behind_thoughts;
};

ChatRoutes::ChatRoutes(Options options, std::shared_ptr<const api::ModelText> text, SwarmHost& host,
                       net::EventLoop& loop, RequestLedger ledger, KeptPrefixes::TakeNote note_kept)
    : options_(std::move(options)),
      text_(std::move(text)),
      host_(host),
      loop_(loop),
      ledger_(std::move(ledger)),
      resumed_(host, ledger_),
      kept_(host, loop, std::move(note_kept)),
      prompt_threads_(kPromptThreads) {}

void ChatRoutes::ListModels(net::Responder& responder) const {
  responder.Send(JsonResponse(200, api::ModelsJson(options_.model_name, options_.created)));
}

void ChatRoutes::DescribeModel(const net::HttpRequest& request, net::Responder& responder) const {
  const std::string name = request.path.substr(std::string("/v1/models/").size());
  if (name == options_.model_name) {
    return responder.Send(JsonResponse(200, api::ModelJson(name, options_.created)));
  }
  responder.Send(ErrorResponse(api::NoSuchModel(name, options_.model_name)));
}

void ChatRoutes::Complete(net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
  Asked asked{request.client, request.salt, std::string(request.Header("idempotency-key")), ""};
  Read(std::move(asked), std::move(request.body), std::move(responder));
}

void ChatRoutes::KeepPrefix(net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
  const std::string name = NameIn(request);
  if (const auto refusal = api::CheckPrefixName(name))
    return responder->Send(ErrorResponse(*refusal));
  Read({request.client, request.salt, "", name}, std::move(request.body), std::move(responder));
}

void ChatRoutes::ListPrefixes(const net::HttpRequest& request, net::Responder& responder) const {
  json::array data;
  for (const KeptPrefixes::Prefix& prefix : kept_.Of(request.salt))
    data.push_back(PrefixJson(prefix));
  responder.Send(JsonResponse(
      200, json::serialize(json::object{{"object", "list"}, {"data", std::move(data)}})));
}

void ChatRoutes::ForgetPrefix(const net::HttpRequest& request, net::Responder& responder) {
  const std::string name = NameIn(request);
  if (kept_.Forget(request.salt, name))
    return responder.Send(JsonResponse(
        200, json::serialize(json::object{{"id", name}, {"object", "prefix"}, {"deleted", true}})));
  responder.Send(ErrorResponse(
      {404,
       "No prefix is kept under the name '" + name + "'; GET /v1/prefixes lists those that are.",
       "invalid_request_error", "", "not_found"}));
}

void ChatRoutes::Read(Asked asked, std::string body, std::shared_ptr<net::Responder> responder) {
  const std::string client = asked.client;
  if (const auto refusal = FindNoRoom(client)) return responder->Send(ErrorResponse(*refusal));
  ++waiting_prompts_;
  ++waiting_by_client_[client];
  const size_t byte_count = body.size();
  waiting_bytes_ += byte_count;
  prompt_threads_.Push(
      client, [this, byte_count, asked = std::move(asked), responder = std::move(responder),
               body = std::move(body)]() mutable {
        auto prompt = std::make_shared<Prompt>(ReadPrompt(std::move(asked), body));
        // The thread keeps no reference to the responder: connections end on the loop alone.
        loop_.Post([this, byte_count, responder = std::move(responder), prompt] {
          --waiting_prompts_;
          waiting_bytes_ -= byte_count;
          const auto own = waiting_by_client_.find(prompt->asked.client);
          if (--own->second == 0) waiting_by_client_.erase(own);
          Start(std::move(*prompt), responder);
        });
      });
}

std::optional<api::ApiError> ChatRoutes::FindNoRoom(const std::string& client) const {
  if (waiting_bytes_ >= kMaxWaitingBytes) {
    return Overloaded(std::to_string(waiting_bytes_) +
                      " bytes of requests wait to be read already, the limit. Try again later.");
  }
  const auto found = waiting_by_client_.find(client);
  const size_t own = found == waiting_by_client_.end() ? 0 : found->second;
  switch (swarm::RoomFor(waiting_prompts_, own, kMaxWaitingPrompts)) {
    case swarm::Room::kFree:
      return std::nullopt;
    case swarm::Room::kOverShare:
      return OverShare("You have " + std::to_string(own) +
                       " requests that wait to be read already, the limit for one client.");
    case swarm::Room::kFull:
      break;
  }
  return Overloaded(std::to_string(waiting_prompts_) +
                    " requests wait to be read already, the limit. Try again later.");
}

// On a thread of the pool.
ChatRoutes::Prompt ChatRoutes::ReadPrompt(Asked asked, const std::string& body) const {
  Prompt prompt;
  prompt.asked = std::move(asked);
  if (!prompt.asked.idempotency_key.empty()) {
    auto call = MakeKeyedCall(prompt.asked.idempotency_key, body);
    if (auto* refused = std::get_if<api::ApiError>(&call)) {
      prompt.error = std::move(*refused);
      return prompt;
    }
    prompt.call = std::move(std::get<KeyedCall>(call));
  }
  auto parsed = api::ParseChatRequest(AsBytes(body), text_->default_sampling());
  if (auto* refused = std::get_if<api::ApiError>(&parsed)) {
    prompt.error = std::move(*refused);
    return prompt;
  }
  prompt.chat = std::move(std::get<api::ChatRequest>(parsed));
  if (prompt.chat.model != options_.model_name) {
    prompt.error = api::NoSuchModel(prompt.chat.model, options_.model_name);
    return prompt;
  }
  for (const sampling::TokenBias& bias : prompt.chat.sampling.logit_bias) {
    if (options_.vocabulary == 0 || static_cast<uint32_t>(bias.token_id) < options_.vocabulary)
      continue;
    prompt.error = {400,
                    "'logit_bias' names the token " + std::to_string(bias.token_id) +
                        "; the model has tokens 0 to " + std::to_string(options_.vocabulary - 1) +
                        ".",
                    "invalid_request_error", "logit_bias", ""};
    return prompt;
  }
  prompt.error = text_->CheckThinking(prompt.chat);
  if (!prompt.error) prompt.error = ReadOpening(prompt);
  if (prompt.error || !prompt.asked.prefix.empty()) return prompt;
  auto ids = text_->EncodeChat(prompt.chat);
  if (ids.ok()) {
    prompt.ids = std::move(ids).value();
    prompt.reading.opens_thinking = text_->OpensThinking(prompt.ids);
    prompt.reading.tools = std::make_shared<const chat::Tools>(prompt.chat.tools);
    if (options_.recurrent) prompt.marks = text_->SharedPositions(prompt.chat, prompt.ids);
    prompt.error = CompileForm(prompt);
  } else {
    prompt.error = api::FromError(ids.error());
  }
  return prompt;
}

// What the answer has to be, compiled here, where nobody waits for this thread alone.
std::optional<api::ApiError> ChatRoutes::CompileForm(Prompt& prompt) const {
  const auto& asked = prompt.chat.form;
  if (!asked) return std::nullopt;
  const auto compiled = asked->Compile();
  if (!compiled.ok()) {
    return api::ApiError{400,
                         "'" + asked->field + "' cannot be followed. " + compiled.error().message(),
                         "invalid_request_error", asked->field, ""};
  }
  const auto made = [&](std::string begins_behind) {
    return std::make_shared<const api::TokenGrammar>(compiled.value(), text_->vocabulary_trie(),
                                                     text_->tokenizer(), std::move(begins_behind));
  };
  prompt.form_behind_thoughts = made("");
  prompt.constraint = made(text_->AnswerBeginsBehind(prompt.ids));
  // What has a form is no call, and where it begins at once nothing of it is a thought.
  prompt.chat.parses_calls = false;
  if (text_->AnswerBeginsBehind(prompt.ids).empty()) prompt.chat.splits_thinking = false;
  return std::nullopt;
}

// All messages of a PUT, the system messages of a chat.
std::optional<api::ApiError> ChatRoutes::ReadOpening(Prompt& prompt) const {
  const api::ChatRequest& chat = prompt.chat;
  if (prompt.asked.prefix.empty() && chat.keep.empty()) return std::nullopt;
  if (!prompt.asked.prefix.empty() && !(chat.keep.empty() && chat.cache_salt.empty()))
    return api::ApiError{400,
                         "'keep' and 'cache_salt' are of chats; the path names this prefix, which "
                         "is for all chats of a key.",
                         "invalid_request_error", chat.keep.empty() ? "cache_salt" : "keep", ""};
  json::array messages = prompt.asked.prefix.empty() ? api::OpeningOf(chat) : chat.messages;
  if (messages.empty() && chat.tools.empty())
    return api::ApiError{400,
                         "'keep' is about the system messages that a chat begins with, and "
                         "'messages' begins with none.",
                         "invalid_request_error", "keep", ""};
  auto opening = text_->EncodeOpening(chat, std::move(messages));
  if (!opening.ok()) return api::FromError(opening.error());
  prompt.opening = std::move(opening).value();
  return std::nullopt;
}

// Why the chat that asks for it is not begun.
std::optional<api::ApiError> ChatRoutes::KeepOpening(const Prompt& prompt) {
  const auto refusal = std::make_shared<std::optional<api::ApiError>>();
  kept_.Keep({prompt.asked.salt, prompt.chat.keep, prompt.opening}, prompt.asked.client,
             [refusal](std::optional<api::ApiError> error) { *refusal = std::move(error); });
  return *refusal;
}

void ChatRoutes::Start(Prompt prompt, std::shared_ptr<net::Responder> responder) {
  if (prompt.error) return responder->Send(ErrorResponse(*prompt.error));
  if (!prompt.asked.prefix.empty()) {
    KeptPrefixes::Prefix prefix{prompt.asked.salt, prompt.asked.prefix, std::move(prompt.opening)};
    return kept_.Keep(prefix, prompt.asked.client,
                      [this, name = prefix.name, salt = prefix.salt,
                       responder](const std::optional<api::ApiError>& error) {
                        if (error) return responder->Send(ErrorResponse(*error));
                        for (const KeptPrefixes::Prefix& each : kept_.Of(salt))
                          if (each.name == name)
                            responder->Send(JsonResponse(200, json::serialize(PrefixJson(each))));
                      });
  }
  const api::ChatRequest& chat = prompt.chat;
  if (!chat.keep.empty())
    if (const auto refusal = KeepOpening(prompt)) return responder->Send(ErrorResponse(*refusal));
  swarm::Request request;
  request.client = std::move(prompt.asked.client);
  request.salt = std::move(prompt.asked.salt);
  if (!chat.cache_salt.empty()) request.salt += " " + chat.cache_salt;
  request.prompt_ids = std::move(prompt.ids);
  request.marks = std::move(prompt.marks);
  request.constraint = std::move(prompt.constraint);
  request.max_tokens =
      chat.max_tokens.value_or(UINT32_MAX);  // the core knows what there is room for
  request.sampling = chat.sampling;
  if (!chat.ignore_eos) request.stop_ids = text_->stop_ids();
  request.want_logprobs = chat.logprobs;
  request.top_logprobs = chat.top_logprobs;
  if (prompt.call) {
    const auto seed = ledger_.SeedOf(*prompt.call, std::time(nullptr));
    if (const auto* refused = std::get_if<api::ApiError>(&seed)) {
      return responder->Send(ErrorResponse(*refused));
    }
    const auto& known = std::get<std::optional<uint64_t>>(seed);
    if (known) request.sampling.seed = known;
  }
  if (!request.sampling.seed) request.sampling.seed = RandomSeed();
  const api::CompletionHead head = {"chatcmpl-" + SecureRandomHex(12), std::time(nullptr),
                                    options_.model_name};
  const CompletionContext context{host_, loop_, *text_, options_.wait};
  GoOn go_on;
  if (chat.max_thinking_tokens) {
    swarm::Request rest = request;
    rest.constraint = prompt.form_behind_thoughts;
    go_on = ContinuationOf(rest);
  }
  Completion::Start(context, head, chat, prompt.reading,
                    GenerationOf(prompt.call, std::move(request)), std::move(go_on),
                    std::move(responder));
}

// What was said belongs to the prompt then. The core still holds its tokens, and those that follow
// are drawn as they would have been.
GoOn ChatRoutes::ContinuationOf(const swarm::Request& request) {
  return [this, request](const std::vector<int32_t>& answer_ids, RequestCallbacks callbacks) {
    swarm::Request rest = request;
    rest.prompt_ids.insert(rest.prompt_ids.end(), answer_ids.begin(), answer_ids.end());
    if (rest.max_tokens != UINT32_MAX) rest.max_tokens -= static_cast<uint32_t>(answer_ids.size());
    return host_.Submit(std::move(rest), std::move(callbacks));
  };
}

// With a key the ledger knows of it as soon as the core has accepted it: what is refused leaves no
// entry, however often it is tried.
Generate ChatRoutes::GenerationOf(const std::optional<KeyedCall>& keyed, swarm::Request request) {
  if (!keyed) {
    return [this, request = std::move(request)](RequestCallbacks callbacks) {
      return host_.Submit(request, std::move(callbacks));
    };
  }
  const KeyedCall& call = *keyed;
  if (Generate resumed = resumed_.Take(call)) return resumed;
  journal::pb::RequestBegun begun;
  begun.set_key(call.key);
  begun.set_digest(call.digest);
  begun.set_seed(*request.sampling.seed);
  begun.set_prompt_tokens(static_cast<uint32_t>(request.prompt_ids.size()));
  // A grammar is not noted: after a restart such a request is asked again, not gone on with.
  if (options_.note_prompts && request.constraint == nullptr)
    *begun.mutable_generation() = ToRecord(request);
  struct Noted {
    std::optional<RequestLedger::Run> run;
    bool is_over = false;
  };
  return
      [this, begun = std::move(begun), request = std::move(request)](RequestCallbacks callbacks) {
        const auto noted = std::make_shared<Noted>();
        const auto begin = [this, noted, begun] {
          if (!noted->run) noted->run = ledger_.Begin(begun, std::time(nullptr));
        };
        callbacks.on_token = [this, noted, begin,
                              take = std::move(callbacks.on_token)](const swarm::EmitToken& token) {
          begin();
          ledger_.AddToken(*noted->run, token.token_id);
          take(token);
        };
        callbacks.on_finish = [this, noted, finish = std::move(callbacks.on_finish)](
                                  const swarm::FinishRequest& end) {
          noted->is_over = true;
          if (noted->run) ledger_.End(*noted->run, end.generated_tokens);
          finish(end);
        };
        const swarm::RequestId id = host_.Submit(request, std::move(callbacks));
        // What is refused is over by now: nothing comes between here and the loop's next turn.
        if (!noted->is_over) begin();
        return id;
      };
}

}  // namespace weft::server
