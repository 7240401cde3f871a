// Sessions: a conversation's tokens and which of them the stages of the active plan hold keys and
// values for. A session outlives its request so that the next turn of a chat reuses its prefix.
// Rules of generations: engine/engine.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "swarm/events.h"
#include "wire/data_frame.h"

namespace weft::swarm {

struct ActiveRequest {
  Request request;
  uint32_t prompt_tokens = 0;
  uint32_t max_tokens = 0;  // of the request, or what the context leaves
  uint32_t cached_prompt_tokens = 0;
  uint32_t generated_tokens = 0;
  uint32_t logits_emitted = 0;   // prompt rows whose logits the client has
  uint32_t step_failures = 0;    // since its last token
  uint16_t candidate_count = 0;  // asked for where candidates are; 0: the best token is enough
  bool stage_draws = false;      // at the next position: the last stage, from all logits
  uint32_t tail_draws = 0;       // candidates that did not settle their token
};

struct Session {
  uint32_t id = 0;
  uint32_t generation = 0;
  std::vector<int32_t> tokens;
  uint32_t scheduled = 0;  // positions handed to the first stage in this generation
  uint32_t completed = 0;  // positions that every stage holds: the last one has answered
  bool alone = false;      // its steps share no frame with others (a step of it failed)
  // Positions that were complete when a step failed last, until the next token: if no more are at
  // the next failure, what the stages hold may itself be the reason.
  std::optional<uint32_t> completed_at_failure;
  Instant idle_since;
  std::optional<ActiveRequest> active;
  // The Sampling message that the last stage has: of a generation, with so many tokens.
  struct Told {
    uint32_t generation = 0;
    uint32_t token_count = 0;
  };
  std::optional<Told> told;

  // Starts a new generation that continues after `position` tokens. REQUIRES: position <=
  // completed.
  void Rewind(uint32_t position);
  // A step failed and left nothing behind: starts a new generation behind what every stage holds,
  // or from the first token where that has just been tried in vain. Returns whether this failure
  // was such a vain attempt: a stage may have lost what it was believed to hold.
  bool RewindAfterFailure();
  // Rows that could be sent now.
  uint32_t WaitingRows() const {
    return active ? static_cast<uint32_t>(tokens.size()) - scheduled : 0;
  }
  // What the last stage gives back for `count` rows from `first`: the next token's scores after the
  // last known token, logits for prompt rows where they are wanted, else nothing. The same at every
  // stage of one generation.
  wire::OutputKind FinalOutput(uint32_t first, uint32_t count) const;
  // Rows from `first` that one run may hold: a run never mixes rows with different outputs.
  uint32_t RunLimit(uint32_t first, uint32_t row_limit) const;
};

class SessionTable {
 public:
  explicit SessionTable(uint32_t session_limit) : session_limit_(session_limit) {}

  // A session for this request: an idle one with a useful common prefix, else a new one in place of
  // the least recently used idle one; the id of a session that had to go is appended to `released`.
  // REQUIRES: active_count() < session limit.
  Session& Admit(ActiveRequest request, std::vector<uint32_t>& released);
  // The request is over; its session stays for reuse.
  void MakeIdle(Session& session, Instant now);
  void Remove(uint32_t id);
  // Drops idle sessions and makes every other one start again from its first token: no stage's KV
  // is of use.
  void Restart(std::vector<uint32_t>& released);

  Session* Find(uint32_t id);
  Session* FindRequest(RequestId request);
  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }
  uint32_t active_count() const;

 private:
  Session* ReusableFor(const ActiveRequest& request, uint32_t& prefix);

  uint32_t session_limit_;
  uint32_t next_id_ = 1;
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace weft::swarm
