// These routes are /v1/models, /v1/prefixes and every way to ask for an answer, in any form
// (dialect.h). A request's text becomes tokens on threads of its own (prompt_reader.h). Then it
// becomes a Completion (completion.h) that the core generates.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/model_text.h"
#include "api/openai_response.h"
#include "net/http.h"
#include "net/loop.h"
#include "server/begun_answers.h"
#include "server/chat_answers.h"
#include "server/generator.h"
#include "server/kept_prefixes.h"
#include "server/prompt_reader.h"
#include "server/reading_queue.h"
#include "server/text_answers.h"

namespace weft::server {

class ChatRoutes {
 public:
  struct Options {
    std::string model_name;
    int64_t created = 0;           // Unix seconds
    Duration wait = Seconds(30);   // for a swarm that is down (CompletionContext)
    bool recurrent = false;        // the model has layers with recurrent state
    bool note_prompts = false;     // the ledger is told them, so that requests can go on later
    uint32_t vocabulary = 0;       // tokens that the model has; 0: not known
    uint32_t context_length = 0;   // positions of the longest conversation
    uint32_t cached_prefixes = 0;  // that are kept by `prompt_cache_key`
    bool embeds = false;           // the model writes no text: all of it is refused
    bool takes_any_name = false;   // who asks another model does not come here
    Duration load_wait;            // longer than `wait`, while devices load the model
    size_t queue_limit = 0;        // ReadingQueue's
  };

  // `loop`, `generator` and `records` outlive this. `seed_key`: RequestLedger's.
  ChatRoutes(Options options, std::shared_ptr<const api::ModelText> text, Generator& generator,
             net::EventLoop& loop, CellRecords& records, const std::string& seed_key);

  api::ServedModel Served() const;
  void ListModels(net::Responder& responder) const;
  // Answers GET /v1/models/NAME.
  void DescribeModel(const net::HttpRequest& request, net::Responder& responder) const;
  // Continues the requests of the previous server that had not ended, and keeps again what it kept
  // (KeptPrefixes::Restore). Call it once, on the loop.
  void Resume(const store::FoundCell& found, const std::vector<std::string>& salts) {
    kept_.Restore(found.kept_prefixes, salts);
    begun_answers_.Resume(found);
  }
  // Answers a request in the form of `dialect`, with an Idempotency-Key (request_ledger.h) or
  // without. It is 503 when more texts wait to become tokens than is good for anyone, 429 when too
  // many of one client do.
  void Answer(std::shared_ptr<const Dialect> dialect, net::HttpRequest request,
              std::shared_ptr<net::Responder> responder);
  // Answers POST /v1/chat/completions.
  void Complete(net::HttpRequest request, std::shared_ptr<net::Responder> responder);
  // Answers POST /v1/completions.
  void CompleteText(net::HttpRequest request, std::shared_ptr<net::Responder> responder);
  // Answers PUT /v1/prefixes/NAME with the fields of a chat, when the prefix is there. What its
  // messages come to is computed and kept under the name.
  void KeepPrefix(net::HttpRequest request, std::shared_ptr<net::Responder> responder);
  // Answers GET /v1/prefixes with those of the sender's key.
  void ListPrefixes(const net::HttpRequest& request, net::Responder& responder) const;
  // Answers DELETE /v1/prefixes/NAME.
  void ForgetPrefix(const net::HttpRequest& request, net::Responder& responder);

 private:
  void Read(Asked asked, std::string body, std::shared_ptr<net::Responder> responder);
  std::optional<api::ApiError> KeepOpening(const Prompt& prompt);
  std::optional<api::ApiError> FindRefusal(const std::string& client) const;
  void Start(Prompt prompt, std::shared_ptr<net::Responder> responder);
  // The responder, or one that numbers the events of a stream.
  std::shared_ptr<net::Responder> Numbered(const Prompt& prompt,
                                           const std::shared_ptr<net::Responder>& responder) const;
  void StartWithSeed(const Prompt& prompt, swarm::Request request,
                     const std::shared_ptr<net::Responder>& responder);
  void StartKeeping(const Prompt& prompt, std::shared_ptr<net::Responder> responder);
  void Begin(const Prompt& prompt, const swarm::Request& request, const BegunAnswers::Key& key,
             std::unique_ptr<AnswerWriter> writer,
             const std::shared_ptr<net::Responder>& responder);
  swarm::Request RequestOf(const Prompt& prompt) const;

  const Options options_;
  const std::shared_ptr<const api::ModelText> text_;
  Generator& generator_;
  net::EventLoop& loop_;
  const std::shared_ptr<const Dialect> chats_ = std::make_shared<ChatDialect>();
  const std::shared_ptr<const Dialect> texts_ = std::make_shared<TextDialect>();
  const PromptReader reader_;
  BegunAnswers begun_answers_;
  KeptPrefixes kept_;
  // Last: its threads use what stands above.
  ReadingQueue reading_;
};

}  // namespace weft::server
