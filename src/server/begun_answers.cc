#include "server/begun_answers.h"

#include <ctime>
#include <memory>
#include <utility>

namespace weft::server {

GoOn BegunAnswers::Continue(const swarm::Request& request) {
  return [this, request](const std::vector<int32_t>& answer_ids, RequestCallbacks callbacks) {
    swarm::Request rest = request;
    rest.prompt_ids.insert(rest.prompt_ids.end(), answer_ids.begin(), answer_ids.end());
    if (rest.max_tokens != UINT32_MAX) rest.max_tokens -= static_cast<uint32_t>(answer_ids.size());
    return generator_.Submit(std::move(rest), std::move(callbacks));
  };
}

Generate BegunAnswers::Begin(const Key& key, swarm::Request request) {
  if (!key.call) {
    return [this, request = std::move(request)](RequestCallbacks callbacks) {
      return generator_.Submit(request, std::move(callbacks));
    };
  }
  if (Generate resumed = resumed_.Take(*key.call)) return resumed;
  request.key = key.call->key + key.call->digest;
  return BeginNoted(*key.call, key.outlives_restart && note_prompts_, std::move(request));
}

// The ledger knows of it as soon as the core has accepted it: what is refused leaves no entry,
// however often it is tried.
Generate BegunAnswers::BeginNoted(const KeyedCall& call, bool with_prompt, swarm::Request request) {
  store::KeyedRequest begun;
  begun.key = call.key;
  begun.digest = call.digest;
  begun.seed = *request.sampling.seed;
  begun.prompt_tokens = static_cast<uint32_t>(request.prompt_ids.size());
  // A grammar is not noted: after a restart such a request is asked again, not gone on with.
  if (with_prompt && request.constraint == nullptr) begun.request = ToRecord(request);
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
        callbacks.on_session = [this, noted, begin](const swarm::SessionTrace& trace) {
          begin();
          ledger_.SetSession(*noted->run, ToRecord(trace));
        };
        callbacks.on_finish = [this, noted, finish = std::move(callbacks.on_finish)](
                                  const swarm::FinishRequest& end) {
          noted->is_over = true;
          if (noted->run) ledger_.End(*noted->run, end.generated_tokens);
          finish(end);
        };
        const swarm::RequestId id = generator_.Submit(request, std::move(callbacks));
        // What a core of this server refuses is over by now: nothing comes between here and the
        // loop's next turn. Of another server's the first token shows that it was accepted.
        if (!noted->is_over && generator_.has_accepted(id)) begin();
        return id;
      };
}

}  // namespace weft::server
