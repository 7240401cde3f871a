// Members: who is there. Takes workers in, keeps what they offer and how they have done, and says
// what they may be asked for: how much of their memory, layers or none. What their devices did in
// other connections is probation's.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "swarm/changes.h"
#include "swarm/incarnation.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/joins.h"
#include "swarm/workers/probation.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

class Members {
 public:
  // Keeps references; all outlive it.
  Members(const CoreOptions& options, const Costs& costs, Roster& roster, Probation& probation,
          Changes& changes, Outbox& outbox)
      : incarnation_(options.incarnation),
        successors_{options.successors, 0},
        options_(options),
        costs_(costs),
        roster_(roster),
        probation_(probation),
        changes_(changes),
        outbox_(outbox),
        joins_(options) {}

  // ---- connections ----

  // A connection, which is told how the swarm is (Init). `network`: by which it counts before it
  // says Connect.
  Worker& Add(const WorkerConnected& event, const std::string& network, Instant now);
  // The one that Init names.
  const OwnIncarnation& incarnation() const { return incarnation_; }
  // It has said Connect. An error: it cannot join, and the sentence is for its user. `is_back`:
  // whether a device is no newcomer. kCancelled: it has seen a later start of this swarm. The core
  // has raised its number above that one, and the worker is to come again to hear it.
  Status Admit(Worker& worker, const wire::pb::Connect& connect,
               const std::function<bool(const std::string&)>& is_back, Instant now);
  void NoteLeadership(const LeadershipChanged& event);
  const SuccessorList& successors() const { return successors_; }
  bool IsFull() const { return roster_.ready_count() >= options_.worker_limit; }
  Error NoRoom() const;
  // It is told why, and closed.
  void Refuse(WorkerId id, const Error& why);
  // Something came of it.
  void NoteHeard(Worker& worker, Instant now) const { worker.last_heard = now; }
  // Nothing is read from it until it is no longer held back.
  void NoteHeldBack(Worker& worker, bool held, Instant now) const;
  // It goes when its layers are elsewhere, at the latest then.
  void NoteLeaving(Worker& worker, Instant latest);
  // The owner wants it to go, and it is told this.
  void NoteEvicted(Worker& worker, const std::string& sentence) const {
    worker.eviction = sentence;
  }
  // It has shown the right of somebody whom the swarm's owner trusts.
  void Trust(Worker& worker) const { worker.trusted = true; }

  // ---- how they do ----

  void NoteProblem(Worker& worker, const std::string& problem);
  // True: its device is put aside by this failure.
  [[nodiscard]] bool NoteFailure(Worker& worker, const std::string& problem, Instant now);
  // At once, whatever it did before.
  void PutAside(Worker& worker, const std::string& problem, Instant now);
  // It has answered a step.
  void NoteSuccess(Worker& worker);
  // It is slower than planned, and a plan that counts with that is looked for: of its steps.
  void NoteSlow(Worker& worker, double stage_us, Instant now);
  // It sent a message that nobody waits for. True: it was one too many.
  [[nodiscard]] bool NoteWrongMessage(Worker& worker);
  // It said what nobody had asked it for. An error: it does so too often.
  Status CountUnasked(Worker& worker, Instant now) const;

  // ---- what they may be asked for ----

  // It could not hold so much. That is not asked of it again for a while. Not for ever: a browser
  // may have been short of memory for a moment, and a swarm without slack would stay down for that.
  void LowerMemory(Worker& worker, uint64_t bytes, Instant now) const;
  // Whether somebody may be asked for its whole offer again.
  bool RestoreMemory(Instant now);
  // It is asked to get no layers for a while, longer each time. `is_slow`: since it took too long.
  void PauseLoading(Worker& worker, const std::string& problem, bool is_slow, Instant now);
  // It got what it was asked to get.
  void NoteLoaded(Worker& worker) const { worker.loading.edit().pauses = 0; }
  // Whether somebody may be asked again.
  bool ResumeLoading(Instant now);
  // Those that were only slow may be asked again at once; whether there are any.
  bool ResumeSlow();

 private:
  OwnIncarnation incarnation_;
  SuccessorList successors_;
  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Probation& probation_;
  Changes& changes_;
  Outbox& outbox_;
  Joins joins_;
};

}  // namespace weft::swarm
