// Sessions: a conversation's tokens, which of them each stage holds keys and values for, and the
// rows that passed between the stages. A session outlives its request so that the next turn of a
// chat reuses its prefix.
//
// Stages may lag. Take a swarm of three whose middle worker was lost at position 120 and whose
// replacement has come to 96:
//
//   layers      0-9            10-19              20-29
//   held        120            96                 119
//   history            0..120         119..119
//
// The replacement is sent rows 96 to 119 from the history in front of layer 10. What it gives for
// 96 to 118 nobody wants: the last stage has had those rows. Rules of generations: engine/engine.h;
// they are numbered through a session and count for each stage by itself.
//
// Layers with recurrent state know few positions: that behind their last row, and the marks that
// they were told to keep (base/marks.h). A stage of such a model that has to go back to position p
// goes back to the last one up to p whose state it has, at worst to 0, and is sent the rows from
// there again; it is never asked to go back to anything between, nor to a position that it may have
// gone beyond with a step which nobody has answered yet. Below, the turn of a chat is edited, which
// cuts the session back to 850, behind the mark 840:
//
//   layers       0-9               10-19
//   held         1200              1200
//   marks        40 840 1100       40 1100       (its worker was given the layers at 900)
//   sent again   from 840          from 40, out of the history in front of layer 10
//
// Sessions that begin alike are kin, and what one has computed at a stage the others need not:
// there they begin as forks of it (wire/fork_frame.h), each stage by itself, and share the rows
// that came of it. So a system prompt is computed once, also for those that arrive together:
// whoever was admitted later waits for what an earlier one is about to compute (pipeline_fork.cc).
//
// Which marks an engine still holds is reckoned here in the order in which it is sent steps. One
// that fails leaves an engine with a mark more than is reckoned with, never with one less.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "swarm/binding.h"
#include "swarm/events.h"
#include "swarm/flow/claims.h"
#include "swarm/flow/row_history.h"
#include "swarm/plan_state.h"
#include "wire/data_frame.h"

namespace weft::swarm {

// A device said that the numbers of these layers fail.
struct Denial {
  std::string device;
  LayerSpan layers;
  std::string problem;
  bool counts = true;  // it had not failed before
};

// What one client has had (fair_queue.h).
struct ClientShare {
  std::string client;
  uint32_t requests = 0;  // that wait or run
  uint64_t served = 0;    // rows that were computed for it
};

struct ActiveRequest {
  Request request;
  std::shared_ptr<ClientShare> share;  // null in tests alone
  // Rows that were computed since it got its session, and from how many on it may have to wait
  // again for others.
  uint64_t turn_rows = 0, turn_limit = 0;
  bool is_paused = false;  // it had a session before
  uint32_t prompt_tokens = 0;
  uint32_t max_tokens = 0;  // of the request, or what the context leaves
  uint32_t cached_prompt_tokens = 0;
  SessionTrace trace;  // of the session that it has, or had last
  uint32_t generated_tokens = 0;
  uint32_t told_tokens = 0;      // of them those that were emitted
  uint64_t lost_groups = 0;      // that its rows had to do without
  Instant last_token_at;         // or when it was accepted
  uint32_t logits_emitted = 0;   // prompt rows whose logits the client has
  uint32_t step_failures = 0;    // since its last token
  uint16_t candidate_count = 0;  // asked for where candidates are; 0: the best token is enough
  // Devices that went while they computed its position `victims_at`.
  std::set<std::string> victims;
  uint32_t victims_at = 0;
  std::set<std::string> strangers;  // those that went before they had served anybody
  // As many as may have gone: the next token is computed by those devices that stay the longest, or
  // by none (Planning::SetSteady).
  bool last_try = false;
  std::vector<Denial> denials;  // since its last token
  bool stage_draws = false;     // at the next position: the last stage, from all logits
  uint32_t tail_draws = 0;      // candidates that did not settle their token
  // Of a request with a constraint: how far its answer is, and whether all logits of the next
  // position are asked for, because candidates did not settle its token, or never would.
  std::shared_ptr<sampling::AnswerState> answer;
  bool wants_row = false;

  // So many rows are computed for it.
  void Charge(uint64_t rows) {
    turn_rows += rows;
    if (share) share->served += rows;
  }
  uint64_t served() const { return share ? share->served : 0; }
  // Whether its client has had tokens of it, those of before a restart left out.
  bool was_told() const { return told_tokens > 0; }
};

// How far one binding is with a session.
struct StageProgress {
  BindingId binding;
  WorkerId worker;
  LayerSpan layers;
  uint32_t generation = 0;
  uint32_t sent = 0;  // positions handed to it in this generation
  uint32_t held = 0;  // positions that it has computed
  // Recurrent models: where its state is kept, those that steps under way will reach among them.
  std::set<uint32_t> marks;
  // It began as a fork and no step has shown yet that its worker could make it; one that could not
  // is not asked again.
  bool forked = false, forks_in_vain = false;
  // `held` when a step of it failed last, until the next token: if no more are at the next failure,
  // what it holds may itself be the reason.
  std::optional<uint32_t> held_at_failure;
};

// With fewer tokens in common two sessions are no kin: computing them takes a step that a fork does
// not save.
inline constexpr uint32_t kLeastShare = 16;

// Another session that begins with the same tokens.
struct Kin {
  SessionId session;
  uint32_t common = 0;  // tokens
};

// Rows in front of layers, made where they are first asked for; counted together.
class Histories : public std::map<uint32_t, RowHistory> {
 public:
  RowHistory& operator[](uint32_t layer) { return try_emplace(layer, tally_).first->second; }
  void CountIn(HistoryTally tally) { tally_ = std::move(tally); }

 private:
  HistoryTally tally_ = std::make_shared<uint64_t>(0);
};

struct Session {
  SessionId id;
  std::string salt;           // Request::salt: of all its requests
  PlanId plan = kActivePlan;  // whose stages its rows go through
  uint64_t admission = 0;     // rises with every request that is given a session
  std::string kept;           // idle for good, under this name (Request::keep)
  std::vector<Kin> kin;       // by falling `common`
  std::vector<int32_t> tokens;
  uint32_t completed = 0;   // positions that have passed the last layer, with what came of them
  bool recurrent = false;   // the model has layers with recurrent state
  uint32_t mark_limit = 0;  // that each layer holds at most
  std::set<uint32_t> mark_positions;  // where runs end and are asked for a mark
  bool alone = false;                 // its steps share no frame with others (a step of it failed)
  Instant idle_since;
  std::optional<ActiveRequest> active;
  // The Sampling message that the last stage has: of a generation, with so many tokens.
  struct Told {
    BindingId binding;
    uint32_t generation = 0;
    uint32_t token_count = 0;
  };
  std::optional<Told> told;
  // What it was adopted by, until its request is over or what was computed is doubted.
  std::optional<SessionTrace> adopted_as;

  std::list<StageProgress> progress;  // references stay valid while others come and go
  // By the layer that the rows go into.
  Histories history;

  StageProgress* Find(BindingId binding);
  // The same, begun with what the worker's other bindings hold where it is new. Those of them that
  // share layers with it are over.
  StageProgress& Track(const BoundStage& stage);
  // Forgets what these bindings hold.
  void Forget(const std::function<bool(const StageProgress&)>& is_gone);

  // Its rows go through another plan's stages from now on. What other bindings than those that it
  // uses were asked beyond `completed` is not wanted any more; what they hold stays.
  void MoveTo(PlanId next, const std::function<bool(BindingId)>& uses);
  // Goes back to `position`, in front of which nothing has changed. REQUIRES: position <=
  // completed.
  void Rewind(uint32_t position);
  // The same for another request. Every stage begins a new generation, so that what it holds then
  // can be told from what it may hold by mistake.
  void BeginAgain(uint32_t position);
  // A new session goes on with what devices hold of an earlier core's, as far as that is of its
  // tokens.
  void Adopt(const std::vector<Claim>& claims, const SessionTrace& trace);
  // The same of a device that comes back later than others did.
  void AdoptLate(const Claim& claim);
  // The bindings that hold all of what is completed.
  std::vector<BindingId> Holders() const;
  uint32_t last_generation() const { return last_generation_; }
  // Its generations are above this one. Call it before it has a stage.
  void CountFrom(uint32_t generation) { last_generation_ = before_own_ = generation; }
  // Whether rows of this generation are the session's: it gave the number, or has adopted it. One
  // of another leader's counts for nothing, and those that it gives from now on are above it.
  bool Knows(uint32_t generation);
  // Nothing of what was computed for it counts.
  void Doubt();
  // This stage computes again from `position`, or from the last position before that where it can
  // be; the others do not hear of it.
  void RewindStage(StageProgress& stage, uint32_t position);
  // A step of the stage failed and left nothing behind: goes back to what it holds, or to the first
  // position where that has just been tried in vain. Returns whether this failure was such a vain
  // attempt: the stage may have lost what it was believed to hold.
  bool RewindAfterFailure(StageProgress& stage);
  // The last position up to `position` where the layers of the stage, as far as is known, can be.
  uint32_t LastUpTo(const StageProgress& stage, uint32_t position) const;
  // The stage begins again as a fork of what `theirs`, of the same binding, holds up to `position`.
  void Fork(StageProgress& stage, const StageProgress& theirs, uint32_t position);
  // The last position up to `position` where an active session's stages will have been, so that a
  // fork can be made of it there.
  uint32_t WillPass(uint32_t position) const;
  // The greatest position, up to `position`, that the next request may go on from without any
  // stage's computing again what lies before it.
  uint32_t ReusableUpTo(uint32_t position) const;
  uint64_t history_bytes() const;

  // What the last stage gives back for `count` rows from `first`: the next token's scores after the
  // last known token, logits for prompt rows where they are wanted, else nothing.
  wire::OutputKind FinalOutput(uint32_t first, uint32_t count) const;
  // Rows from `first` that one run may hold: a run never mixes rows with different outputs.
  uint32_t RunLimit(uint32_t first, uint32_t row_limit) const;
  // Rows from `first` to the next position that is to be a mark; UINT32_MAX where there is none.
  uint32_t RowsToMark(uint32_t first) const;
  // The stage is sent `count` rows. Returns how many marks its layers hold at most with the one
  // that the run makes; 0: it makes none.
  uint8_t Sent(StageProgress& stage, uint32_t count) const;

 private:
  // Whether the layers of the stage, as far as is known, can be at `position` next.
  bool CanBeAt(const StageProgress& stage, uint32_t position) const;
  // The stage is at `position` in a new generation.
  void Restart(StageProgress& stage, uint32_t position);

  // Begins to track a stage at those of the claimed positions that are the request's.
  StageProgress& Believe(const Claim& claim, const SessionTrace& trace);
  // How far all layers are that somebody holds, each at whoever holds the most of it.
  uint32_t HeldByAllLayers() const;

  uint32_t last_generation_ = 0, before_own_ = 0;
  std::optional<SessionTrace> adopted_from_;  // of another leader
};

class SessionTable {
 public:
  // `recurrent`: of the model, each layer of which holds at most `mark_limit` marks.
  explicit SessionTable(uint32_t session_limit, bool recurrent = false, uint32_t mark_limit = 0)
      : session_limit_(session_limit), recurrent_(recurrent), mark_limit_(mark_limit) {}

  // A session for this request: an idle one that it continues; else a new one, in place of the
  // least recently used idle one where there is no room, which will be a fork of whatever begins
  // alike under the same salt. The id of a session that had to go is appended to `released`. An
  // idle session is cut back only where that loses next to nothing, or where there is no room and
  // it loses less than the session that would have to go.
  // REQUIRES: HasPlace().
  Session& Admit(ActiveRequest request, std::vector<SessionId>& released);
  // Whether one more may be active: kept sessions have their places for good.
  bool HasPlace() const { return active_count() + kept_count() < session_limit_; }
  // The request is over; its session stays for reuse.
  void MakeIdle(Session& session, Instant now);
  // The same of a request with `keep`, all of whose prompt is computed.
  void Keep(Session& session, Instant now);
  // The session that was kept under the name is as others from now on.
  void Forget(const std::string& salt, const std::string& name);
  uint32_t kept_count() const;
  void Remove(SessionId id);
  // Drops kept rows until no more than `budget` bytes are held, those first that are cheapest to
  // make again: of the session that has been idle for the longest, and of the cut nearest to the
  // tokens. Rows that `keep_from` (session, layer) and later positions name stay: somebody has not
  // been sent them yet.
  void TrimHistory(uint64_t budget,
                   const std::function<uint32_t(const Session&, uint32_t layer)>& keep_from);
  uint64_t history_bytes() const;
  uint64_t history_trims() const { return history_trims_; }

  // A device holds a session that an earlier core began. It keeps a place until somebody wants
  // that; where there is none nothing is noted.
  void NoteClaim(SessionId session, Claim claim, Instant until);
  Claims& claims() { return claims_; }
  const Claims& claims() const { return claims_; }
  Session* Find(SessionId id) const;
  Session* FindRequest(RequestId request);
  // So many rows of an active session are computed.
  void Charge(Session& session, uint64_t rows) {
    session.active->Charge(rows);
    computed_positions_ += rows;
  }
  // Of all requests since the start; those that forks and kept sessions saved are not among them.
  uint64_t computed_positions() const { return computed_positions_; }
  // Positions that active sessions hold, common ones once: what whoever takes over layers computes.
  uint64_t CountLiveRows() const;
  const std::vector<std::unique_ptr<Session>>& sessions() const { return sessions_; }
  uint32_t active_count() const;
  uint32_t active_count(PlanId plan) const;  // of one plan
  SessionId last_id() const { return last_id_; }
  // Numbers up to this one are spent.
  void ContinueAfter(SessionId id) { last_id_ = id; }
  void CountGenerationsFrom(uint32_t generation) { generations_above_ = generation; }

 private:
  // What of the idle session would be gone if the request continued it, and from where.
  struct Continuation {
    Session* session = nullptr;
    uint32_t prefix = 0, lost = 0;
  };
  Continuation BestToContinue(const Request& request, std::span<const int32_t> known) const;
  // The longest part of `known` that a session with the same salt has or is about to have.
  uint32_t LongestShare(const Request& request, std::span<const int32_t> known) const;
  Session* LeastRecent() const;
  // Positions that nobody else would have if the session went.
  uint32_t LossOf(const Session& session) const;
  void NoteKin(Session& session);
  void ForgetKin(SessionId session);
  std::unique_ptr<Session> Make(SessionId id) const;
  // The ids of sessions that had to go are appended to `released`.
  Session& Add(std::unique_ptr<Session> session, std::vector<SessionId>& released);
  // The session that the request had at an earlier core, where devices hold more of it than
  // `least` positions; nullptr: none do.
  Session* Adopt(const Request& request, std::span<const int32_t> known, uint32_t least,
                 std::vector<SessionId>& released);

  uint32_t session_limit_;
  bool recurrent_;
  uint32_t mark_limit_;
  // Gives the next number that no session has, here or on a device that holds an earlier core's.
  SessionId NextId();

  SessionId last_id_;
  uint32_t generations_above_ = 0;
  Claims claims_;
  uint64_t admissions_ = 0;
  uint64_t computed_positions_ = 0, history_trims_ = 0;
  HistoryTally history_tally_ = std::make_shared<uint64_t>(0);
  std::vector<std::unique_ptr<Session>> sessions_;  // by rising id
};

}  // namespace weft::swarm
