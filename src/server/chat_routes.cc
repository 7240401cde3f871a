#include "server/chat_routes.h"

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstring>
#include <ctime>

#include "api/answer_text.h"
#include "api/openai_response.h"
#include "base/random.h"

namespace weft::server {
namespace json = boost::json;

namespace {

// A comment line that keeps proxies and people from giving up while a request waits.
constexpr Duration kKeepAliveInterval = Seconds(5);
// How often a request without a token is looked at; what has changed is said in a comment.
constexpr Duration kProgressInterval = Milliseconds(250);
constexpr int kLooksPerKeepAlive = 20;

net::HttpResponse JsonResponse(int status, std::string text, const net::Headers& extra) {
  net::HttpResponse response = net::TextResponse(status, "application/json", std::move(text));
  response.headers.emplace_back("Cache-Control", "no-store");
  response.headers.insert(response.headers.end(), extra.begin(), extra.end());
  return response;
}

json::value TokenLogprob(const Tokenizer& tokenizer, int32_t id, float logprob) {
  const std::string bytes = tokenizer.TokenBytes(id);
  json::array byte_values;
  for (const char c : bytes) byte_values.push_back(static_cast<uint8_t>(c));
  const std::vector<int32_t> ids = {id};
  return json::object{{"token", tokenizer.Decode(ids, false)},
                      {"logprob", logprob},
                      {"bytes", std::move(byte_values)}};
}

}  // namespace

// One request from its first byte to its last. Shared by the callbacks of the core, the timer and
// the connection.
class ChatRoutes::Completion : public std::enable_shared_from_this<Completion> {
 public:
  Completion(net::EventLoop& loop, SwarmHost& host, std::shared_ptr<net::Responder> responder,
             net::Headers extra_headers, Tokenizer tokenizer)
      : host_(host),
        responder_(std::move(responder)),
        extra_headers_(std::move(extra_headers)),
        tokenizer_(std::move(tokenizer)),
        keep_alive_(loop) {}

  void Refuse(const api::ApiError& error) {
    responder_->Send(JsonResponse(error.status, api::ErrorJson(error), extra_headers_));
  }

  void Begin(const api::ChatRequest& chat, const Options& options) {
    head_ = {"chatcmpl-" + SecureRandomHex(12), std::time(nullptr), options.model_name};
    answer_ = std::make_unique<api::AnswerText>(tokenizer_, chat.stop);
    stream_ = chat.stream;
    include_usage_ = chat.include_usage;
    logprobs_ = chat.logprobs;
    if (!stream_) return;
    net::Headers headers = {{"Content-Type", "text/event-stream"},
                            {"Cache-Control", "no-store"},
                            {"X-Accel-Buffering", "no"}};
    headers.insert(headers.end(), extra_headers_.begin(), extra_headers_.end());
    responder_->StartStream(200, headers);
    responder_->Write(api::ChunkEvent(head_, {{"role", "assistant"}, {"content", ""}}, ""));
    KeepAlive();
  }

  RequestCallbacks Callbacks() {
    RequestCallbacks callbacks;
    callbacks.on_token = [self = shared_from_this()](const swarm::EmitToken& token) {
      self->OnToken(token);
    };
    callbacks.on_finish = [self = shared_from_this()](const swarm::FinishRequest& finish) {
      self->OnFinish(finish);
    };
    return callbacks;
  }

  void SetRequest(swarm::RequestId id) {
    if (finished_) return;
    id_ = id;
    responder_->OnClosed([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && !self->finished_) self->host_.Cancel(self->id_);
    });
  }

 private:
  void KeepAlive() {
    keep_alive_.FireAfter(has_token_ ? kKeepAliveInterval : kProgressInterval,
                          [weak = weak_from_this()] {
                            const auto self = weak.lock();
                            if (!self || self->finished_) return;
                            if (!self->has_token_) {
                              self->SayProgress();
                            } else if (self->quiet_) {
                              self->responder_->Write(": waiting\n\n");
                            }
                            self->quiet_ = true;
                            self->KeepAlive();
                          });
  }

  void SayProgress() {
    const auto progress = host_.progress(id_);
    if (!progress) return;
    std::string comment = api::ProgressComment(*progress);
    if (comment == said_ && ++unchanged_looks_ < kLooksPerKeepAlive) return;
    unchanged_looks_ = 0;
    responder_->Write(comment);
    said_ = std::move(comment);
  }

  json::value LogprobsOf(const swarm::EmitToken& token) const {
    if (!logprobs_) return nullptr;
    json::object entry = TokenLogprob(tokenizer_, token.token_id, token.logprob).as_object();
    json::array top;
    for (const auto& other : token.top) {
      top.push_back(TokenLogprob(tokenizer_, other.token_id, other.logprob));
    }
    entry["top_logprobs"] = std::move(top);
    return json::object{{"content", json::array{std::move(entry)}}, {"refusal", nullptr}};
  }

  void OnToken(const swarm::EmitToken& token) {
    if (answer_->stopped()) return;
    has_token_ = true;
    const std::string piece = answer_->Push(token.token_id);
    if (stream_) {
      if (!piece.empty() || logprobs_) {
        responder_->Write(logprobs_
                              ? api::ChunkEvent(head_, {{"content", piece}}, "", LogprobsOf(token))
                              : api::ContentEvent(head_, piece));
        quiet_ = false;
      }
    } else {
      text_ += piece;
      if (logprobs_)
        all_logprobs_.push_back(LogprobsOf(token).as_object().at("content").as_array()[0]);
    }
    if (answer_->stopped()) host_.Cancel(id_);
  }

  void OnFinish(const swarm::FinishRequest& finish) {
    finished_ = true;
    keep_alive_.Cancel();
    if (finish.reason == swarm::FinishReason::kError) return Fail(*finish.error);
    const std::string rest = answer_->Flush();
    const bool at_length = finish.reason == swarm::FinishReason::kLength && !answer_->stopped();
    const std::string reason = at_length ? "length" : "stop";
    const api::Usage usage{finish.prompt_tokens, finish.cached_prompt_tokens,
                           finish.generated_tokens};
    if (!stream_) {
      json::value logprobs = nullptr;
      if (logprobs_) logprobs = json::object{{"content", all_logprobs_}, {"refusal", nullptr}};
      return responder_->Send(JsonResponse(
          200, api::CompletionJson(head_, text_ + rest, reason, usage, logprobs), extra_headers_));
    }
    if (!rest.empty()) responder_->Write(api::ChunkEvent(head_, {{"content", rest}}, ""));
    responder_->Write(api::ChunkEvent(head_, json::object(), reason));
    if (include_usage_) responder_->Write(api::UsageEvent(head_, usage));
    responder_->Write("data: [DONE]\n\n");
    responder_->End();
  }

  void Fail(const Error& error) {
    const api::ApiError api_error = api::FromError(error);
    if (!stream_) return Refuse(api_error);
    responder_->Write(api::ErrorEvent(api_error));
    responder_->Write("data: [DONE]\n\n");
    responder_->End();
  }

  SwarmHost& host_;
  const std::shared_ptr<net::Responder> responder_;
  const net::Headers extra_headers_;
  const Tokenizer tokenizer_;
  net::EventLoop::Timer keep_alive_;
  swarm::RequestId id_ = 0;
  api::CompletionHead head_;
  std::unique_ptr<api::AnswerText> answer_;
  bool stream_ = false;
  bool include_usage_ = false;
  bool logprobs_ = false;
  bool quiet_ = true;  // nothing was written since the last look
  bool has_token_ = false;
  std::string said_;         // the last comment about progress
  int unchanged_looks_ = 0;  // since then
  bool finished_ = false;
  std::string text_;
  json::array all_logprobs_;
};

ChatRoutes::ChatRoutes(Options options, std::shared_ptr<const api::ModelText> text, SwarmHost& host,
                       net::EventLoop& loop, net::ThreadPool& pool)
    : options_(std::move(options)), text_(std::move(text)), host_(host), loop_(loop), pool_(pool) {}

bool ChatRoutes::Answer(const net::HttpRequest& request, std::shared_ptr<net::Responder> responder,
                        const net::Headers& extra_headers) {
  if (request.path == "/v1/models" && request.method == "GET") {
    responder->Send(
        JsonResponse(200, api::ModelsJson(options_.model_name, options_.created), extra_headers));
    return true;
  }
  if (request.path != "/v1/chat/completions") return false;
  auto completion = std::make_shared<Completion>(loop_, host_, std::move(responder), extra_headers,
                                                 text_->tokenizer());
  if (request.method != "POST") {
    completion->Refuse(
        {405, "Use POST for " + request.path + ".", "invalid_request_error", "", ""});
    return true;
  }
  pool_.Run([this, completion, body = request.body, text = text_] {
    auto parsed = api::ParseChatRequest(AsBytes(body), text->default_sampling());
    std::optional<api::ApiError> error;
    std::vector<int32_t> prompt_ids;
    if (auto* refused = std::get_if<api::ApiError>(&parsed)) {
      error = std::move(*refused);
    } else if (const auto& chat = std::get<api::ChatRequest>(parsed);
               chat.model != options_.model_name) {
      error = api::ApiError{404,
                            "There is no model '" + chat.model + "' here; this server has '" +
                                options_.model_name + "'.",
                            "invalid_request_error", "model", "model_not_found"};
    } else {
      auto encoded = text->EncodeChat(chat);
      if (encoded.ok()) {
        prompt_ids = std::move(encoded).value();
      } else {
        error = api::FromError(encoded.error());
      }
    }
    loop_.Post(
        [this, completion, error, parsed = std::move(parsed), prompt_ids = std::move(prompt_ids)] {
          if (error) return completion->Refuse(*error);
          Start(completion, std::get<api::ChatRequest>(parsed), prompt_ids);
        });
  });
  return true;
}

void ChatRoutes::Start(std::shared_ptr<Completion> completion, api::ChatRequest chat,
                       std::vector<int32_t> prompt_ids) {
  if (prompt_ids.size() >= options_.context_length) {
    return completion->Refuse(
        {400,
         "The conversation has " + std::to_string(prompt_ids.size()) +
             " tokens; this server's context is " + std::to_string(options_.context_length) +
             ". Start a new chat, or restart the server with a larger --context.",
         "invalid_request_error", "messages", "context_length_exceeded"});
  }
  swarm::Request request;
  const auto room = static_cast<uint32_t>(options_.context_length - prompt_ids.size());
  request.max_tokens = std::min(chat.max_tokens.value_or(room), room);
  request.prompt_ids = std::move(prompt_ids);
  request.sampling = chat.sampling;
  if (!chat.ignore_eos) request.stop_ids = text_->stop_ids();
  request.want_logprobs = chat.logprobs;
  request.top_logprobs = chat.top_logprobs;
  if (!request.sampling.seed) {
    uint64_t seed = 0;
    uint8_t bytes[sizeof(seed)];
    SecureRandomBytes(bytes);
    std::memcpy(&seed, bytes, sizeof(seed));
    request.sampling.seed = seed;
  }
  completion->Begin(chat, options_);
  completion->SetRequest(host_.Submit(std::move(request), completion->Callbacks()));
}

}  // namespace weft::server
