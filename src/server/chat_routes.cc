#include "server/chat_routes.h"

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <ctime>
#include <optional>
#include <utility>
#include <variant>

#include "api/openai_response.h"
#include "base/random.h"
#include "server/completion.h"
#include "server/counted_responder.h"
#include "server/numbered_stream.h"
#include "server/responses.h"

namespace weft::server {
namespace json = boost::json;

namespace {

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

// The same, told to the line that the answer leaves in the log.
RequestCallbacks Counting(RequestCallbacks callbacks, std::shared_ptr<CountedResponder> counted,
                          std::string model) {
  callbacks.on_token = [counted,
                        tell = std::move(callbacks.on_token)](const swarm::EmitToken& token) {
    counted->CountToken();
    tell(token);
  };
  callbacks.on_finish = [counted, model = std::move(model),
                         tell = std::move(callbacks.on_finish)](const swarm::FinishRequest& end) {
    counted->CountEnd(model, end.prompt_tokens, end.generated_tokens);
    tell(end);
  };
  return callbacks;
}

}  // namespace

ChatRoutes::ChatRoutes(Options options, std::shared_ptr<const api::ModelText> text,
                       Generator& generator, net::EventLoop& loop, CellRecords& records,
                       const std::string& seed_key)
    : options_(std::move(options)),
      text_(std::move(text)),
      generator_(generator),
      loop_(loop),
      reader_(
          {options_.model_name, options_.recurrent, options_.vocabulary, options_.takes_any_name},
          text_),
      begun_answers_(generator, {records, seed_key}, options_.note_prompts),
      kept_(generator, loop, records),
      reading_(loop, options_.queue_limit) {
  kept_.set_most_cached(options_.cached_prefixes);
}

api::ServedModel ChatRoutes::Served() const {
  std::vector<std::string> capabilities = {"embedding"};
  if (!options_.embeds) capabilities = text_->Capabilities();
  return {options_.model_name, options_.created, options_.context_length, capabilities};
}

void ChatRoutes::ListModels(net::Responder& responder) const {
  const api::ServedModel served = Served();
  responder.Send(JsonResponse(200, api::ModelsJson({&served, 1})));
}

void ChatRoutes::DescribeModel(const net::HttpRequest& request, net::Responder& responder) const {
  const std::string name = request.path.substr(std::string("/v1/models/").size());
  if (api::IsServed(name, options_.model_name))
    return responder.Send(JsonResponse(200, api::ModelJson(Served())));
  responder.Send(ErrorResponse(api::NoSuchModel(name, options_.model_name)));
}

void ChatRoutes::Complete(net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
  Answer(chats_, std::move(request), std::move(responder));
}

void ChatRoutes::CompleteText(net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
  Answer(texts_, std::move(request), std::move(responder));
}

void ChatRoutes::Answer(std::shared_ptr<const Dialect> dialect, net::HttpRequest request,
                        std::shared_ptr<net::Responder> responder) {
  Asked asked{std::move(dialect), request.client, request.salt,
              std::string(request.Header("idempotency-key")), ""};
  const auto known = ParseLastEventId(request.Header("last-event-id"), asked.idempotency_key);
  if (const auto* refused = std::get_if<api::ApiError>(&known))
    return responder->Send(asked.dialect->Error(*refused));
  asked.known_events = std::get<uint64_t>(known);
  Read(std::move(asked), std::move(request.body), std::move(responder));
}

void ChatRoutes::KeepPrefix(net::HttpRequest request, std::shared_ptr<net::Responder> responder) {
  const std::string name = NameIn(request);
  if (const auto refusal = api::CheckPrefixName(name))
    return responder->Send(ErrorResponse(*refusal));
  Read({chats_, request.client, request.salt, "", name, 0}, std::move(request.body),
       std::move(responder));
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
  if (const auto refusal = FindRefusal(asked.client))
    return responder->Send(asked.dialect->Error(*refusal));
  const std::string client = asked.client;
  const size_t byte_count = body.size();
  reading_.Push(client, byte_count,
                [this, asked = std::move(asked), responder = std::move(responder),
                 body = std::move(body)]() mutable -> std::function<void()> {
                  auto prompt = std::make_shared<Prompt>(reader_.Read(std::move(asked), body));
                  return [this, responder = std::move(responder), prompt] {
                    Start(std::move(*prompt), responder);
                  };
                });
}

std::optional<api::ApiError> ChatRoutes::FindRefusal(const std::string& client) const {
  if (options_.embeds)
    return api::RefuseField("model", "'" + options_.model_name +
                                         "' makes embeddings and writes no text: ask POST "
                                         "/v1/embeddings, or serve a package that writes text.");
  return reading_.FindNoRoom(client);
}

// Why the chat that asks for it is not begun.
std::optional<api::ApiError> ChatRoutes::KeepOpening(const Prompt& prompt) {
  const auto refusal = std::make_shared<std::optional<api::ApiError>>();
  kept_.Keep({prompt.asked.salt, prompt.question.chat.keep, prompt.opening}, prompt.asked.client,
             [refusal](std::optional<api::ApiError> error) { *refusal = std::move(error); });
  return *refusal;
}

void ChatRoutes::Start(Prompt prompt, std::shared_ptr<net::Responder> responder) {
  const std::shared_ptr<const Dialect> dialect = prompt.asked.dialect;
  if (prompt.error) return responder->Send(dialect->Error(*prompt.error));
  if (!prompt.asked.prefix.empty()) return StartKeeping(prompt, std::move(responder));
  const Question& question = prompt.question;
  if (question.count) return responder->Send(question.count(prompt.ids.size()));
  if (!question.chat.keep.empty())
    if (const auto refusal = KeepOpening(prompt)) return responder->Send(dialect->Error(*refusal));
  if (prompt.keeps_while_room)
    kept_.KeepWhileRoom(question.chat.cache_key, {prompt.asked.salt, "", prompt.opening},
                        prompt.asked.client);
  swarm::Request request = RequestOf(prompt);
  if (!prompt.call) {
    if (!request.sampling.seed) request.sampling.seed = RandomSeed();
    return StartWithSeed(prompt, std::move(request), responder);
  }
  if (!request.sampling.seed) request.sampling.seed = begun_answers_.SeedFor(*prompt.call);
  const KeyedCall call = *prompt.call;
  begun_answers_.Ask(call, [this, prompt = std::move(prompt), request = std::move(request),
                            responder](const api::ApiResult<std::optional<uint64_t>>& seed) {
    if (const auto* refused = std::get_if<api::ApiError>(&seed))
      return responder->Send(prompt.asked.dialect->Error(*refused));
    swarm::Request seeded = request;
    if (const auto& known = std::get<std::optional<uint64_t>>(seed)) seeded.sampling.seed = known;
    StartWithSeed(prompt, std::move(seeded), responder);
  });
}

void ChatRoutes::StartWithSeed(const Prompt& prompt, swarm::Request request,
                               const std::shared_ptr<net::Responder>& responder) {
  const Question& question = prompt.question;
  const AnswerHead head{std::time(nullptr), options_.model_name, *text_, prompt.ids.size()};
  Writers writers = question.write(head, Numbered(prompt, responder));
  SeededRandom seeds(*request.sampling.seed);
  for (size_t i = 0; i < writers.size(); ++i) {
    // The first choice is what the request would get alone.
    if (i > 0) request.sampling.seed = seeds.Next();
    const BegunAnswers::Key key{i == 0 ? prompt.call : std::nullopt, writers.size() == 1};
    Begin(prompt, request, key, std::move(writers[i]), responder);
  }
}

// Events of one choice come in the same order at each server. Other dialects than OpenAI's have
// their own ways, and events that depend on time.
std::shared_ptr<net::Responder> ChatRoutes::Numbered(
    const Prompt& prompt, const std::shared_ptr<net::Responder>& responder) const {
  const api::ChatRequest& chat = prompt.question.chat;
  const bool is_openai = prompt.asked.dialect == chats_ || prompt.asked.dialect == texts_;
  if (!prompt.call || !is_openai || !chat.stream || chat.choices > 1) return responder;
  return std::make_shared<NumberedStream>(responder, prompt.asked.known_events);
}

void ChatRoutes::Begin(const Prompt& prompt, const swarm::Request& request,
                       const BegunAnswers::Key& key, std::unique_ptr<AnswerWriter> writer,
                       const std::shared_ptr<net::Responder>& responder) {
  const api::ChatRequest& chat = prompt.question.chat;
  GoOn go_on;
  if (chat.max_thinking_tokens) {
    swarm::Request rest = request;
    rest.constraint = prompt.form_behind_thoughts;
    go_on = begun_answers_.Continue(rest);
  }
  const auto counted = std::dynamic_pointer_cast<CountedResponder>(responder);
  const auto count = [counted, model = options_.model_name](RequestCallbacks callbacks) {
    return counted ? Counting(std::move(callbacks), counted, model) : callbacks;
  };
  if (go_on)
    go_on = [go_on = std::move(go_on), count](const std::vector<int32_t>& answer_ids,
                                              RequestCallbacks callbacks) {
      return go_on(answer_ids, count(std::move(callbacks)));
    };
  const auto generate = [begin = begun_answers_.Begin(key, request),
                         count](RequestCallbacks callbacks) {
    return begin(count(std::move(callbacks)));
  };
  Completion::Start(
      {generator_, loop_, *text_, options_.wait, options_.load_wait, options_.model_name}, chat,
      prompt.reading, generate, std::move(go_on), std::move(writer));
}

void ChatRoutes::StartKeeping(const Prompt& prompt, std::shared_ptr<net::Responder> responder) {
  const KeptPrefixes::Prefix prefix{prompt.asked.salt, prompt.asked.prefix, prompt.opening};
  kept_.Keep(prefix, prompt.asked.client,
             [this, name = prefix.name, salt = prefix.salt,
              responder](const std::optional<api::ApiError>& error) {
               if (error) return responder->Send(ErrorResponse(*error));
               for (const KeptPrefixes::Prefix& each : kept_.Of(salt))
                 if (each.name == name)
                   responder->Send(JsonResponse(200, json::serialize(PrefixJson(each))));
             });
}

swarm::Request ChatRoutes::RequestOf(const Prompt& prompt) const {
  const api::ChatRequest& chat = prompt.question.chat;
  swarm::Request request;
  request.client = prompt.asked.client;
  request.salt = prompt.asked.salt;
  if (!chat.cache_salt.empty()) request.salt += " " + chat.cache_salt;
  request.prompt_ids = prompt.ids;
  request.marks = prompt.marks;
  request.constraint = prompt.constraint;
  request.max_tokens =
      chat.max_tokens.value_or(UINT32_MAX);  // the core knows what there is room for
  request.sampling = chat.sampling;
  if (!chat.ignore_eos) request.stop_ids = text_->stop_ids();
  request.want_logprobs = chat.logprobs;
  request.top_logprobs = chat.top_logprobs;
  return request;
}

}  // namespace weft::server
