// Asks the core for an answer in one of three ways: at once, as a call with an Idempotency-Key that
// the ledger knows of, or as one that a restart interrupted. All of it runs on the loop.
#pragma once

#include <optional>

#include "server/completion.h"
#include "server/generator.h"
#include "server/request_ledger.h"
#include "server/resumed_answers.h"

namespace weft::server {

class BegunAnswers {
 public:
  // `generator` outlives this. `note_prompts`: the ledger is told them, so that requests can go on
  // later.
  BegunAnswers(Generator& generator, RequestLedger ledger, bool note_prompts)
      : generator_(generator),
        ledger_(std::move(ledger)),
        note_prompts_(note_prompts),
        resumed_(generator, ledger_) {}

  // Continues the requests of the previous server that had not ended. Call it once.
  void Resume(const store::FoundCell& found) { resumed_.Start(found); }
  // Asks for the seed that the call's answer has (RequestLedger::Ask).
  void Ask(const KeyedCall& call, RequestLedger::Known then) const {
    ledger_.Ask(call, std::move(then));
  }
  uint64_t SeedFor(const KeyedCall& call) const { return ledger_.SeedFor(call); }
  struct Key {
    std::optional<KeyedCall> call;  // nullopt: without a key
    bool outlives_restart = true;   // the request may go on after one; else only its seed stays
  };
  // REQUIRES: a seed; with a call, Ask had no objection.
  Generate Begin(const Key& key, swarm::Request request);
  // What was said belongs to the prompt then. The core still holds its tokens, and those that
  // follow are drawn as they would have been.
  GoOn Continue(const swarm::Request& request);

 private:
  Generate BeginNoted(const KeyedCall& call, bool with_prompt, swarm::Request request);

  Generator& generator_;
  RequestLedger ledger_;
  const bool note_prompts_;
  ResumedAnswers resumed_;
};

}  // namespace weft::server
