// ResumedAnswers: requests that a restart interrupted and whose prompts the journal has. They go on
// without being asked; what they give is kept for whoever asks with their key.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "journal/contents.h"
#include "server/completion.h"
#include "server/request_ledger.h"
#include "server/swarm_host.h"

namespace weft::server {

// A request as the journal keeps it, and back.
journal::pb::Generation ToRecord(const swarm::Request& request);
swarm::Request FromRecord(const journal::RequestEntry& entry);

class ResumedAnswers {
 public:
  // Both outlive this.
  ResumedAnswers(SwarmHost& host, RequestLedger& ledger) : host_(host), ledger_(ledger) {}

  // Begins with all that are not over.
  void Start(const journal::Contents& found);
  // What the answer has so far, at once, then what comes; once. nullptr: there is no such request.
  // Whoever has it may cancel it.
  Generate Take(const KeyedCall& call);
  size_t count() const { return answers_.size(); }

 private:
  struct Answer {
    swarm::RequestId id = 0;
    std::vector<swarm::EmitToken> tokens;
    std::optional<swarm::FinishRequest> end;
    RequestCallbacks client;  // empty: nobody has asked yet
  };
  void Start(const journal::RequestEntry& entry);

  SwarmHost& host_;
  RequestLedger& ledger_;
  std::map<std::string, std::shared_ptr<Answer>> answers_;  // by key
};

}  // namespace weft::server
