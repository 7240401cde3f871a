// ResumedAnswers: requests that a restart interrupted and whose prompts were noted. They go on
// without being asked; what they give is kept for whoever asks with their key.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/completion.h"
#include "server/generator.h"
#include "server/request_ledger.h"

namespace weft::server {

// A request as the records keep it, and back.
store::pb::Request ToRecord(const swarm::Request& request);
store::StoredSession ToRecord(const swarm::SessionTrace& trace);
// REQUIRES: its prompt is known.
swarm::Request FromRecord(const store::OpenRequest& noted);

class ResumedAnswers {
 public:
  // Both outlive this.
  ResumedAnswers(Generator& generator, RequestLedger& ledger)
      : generator_(generator), ledger_(ledger) {}

  // Begins with all unfinished ones. It leaves out requests that two starts have tried to go on
  // with, and that then ended without being told to: such a request may be the reason. That it is
  // tried again is on the disk before it begins.
  void Start(const store::FoundCell& found);
  // What the answer has so far, at once, then what comes; once. nullptr: there is no such request.
  // Whoever has it may cancel it.
  Generate Take(const KeyedCall& call);
  size_t count() const { return answers_.size(); }

 private:
  struct Answer {
    RequestLedger::Run run;
    swarm::Request request;  // until it is submitted
    swarm::RequestId id;
    std::vector<swarm::EmitToken> tokens;
    std::optional<swarm::FinishRequest> end;
    RequestCallbacks client;  // empty: nobody has asked yet
  };
  void Start(const store::OpenRequest& noted, uint32_t attempts);

  void Submit(const std::shared_ptr<Answer>& answer);

  Generator& generator_;
  RequestLedger& ledger_;
  std::map<std::string, std::shared_ptr<Answer>> answers_;  // by key
};

}  // namespace weft::server
