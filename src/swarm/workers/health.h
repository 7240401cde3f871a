// Noticing that a worker is gone or stuck: heartbeats, silence, deadlines of steps and answers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/workers/measuring.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

struct Casualty {
  WorkerId worker;
  std::string reason;
  // It still talks but does not do what it was asked for. False: for all we know it has gone.
  bool refuses = false;
};

class Health {
 public:
  Health(const CoreOptions& options, const SuccessorList& successors, Roster& roster,
         Outbox& outbox)
      : options_(options), successors_(successors), roster_(roster), outbox_(outbox) {}

  // Sends pings that are due; returns workers that are to be given up, each with a sentence.
  std::vector<Casualty> Tick(Instant now);
  void Ping(Worker& worker, Instant now);
  // An error: no such ping is out.
  Status OnPong(Worker& worker, const wire::pb::Pong& pong, Instant now);
  // Workers whose oldest step is late since the last call, each step once.
  std::vector<WorkerId> TakeLate(Instant now);
  // When Tick is wanted next because of this worker; Instant{INT64_MAX}: not before an event.
  Instant NextOf(const Worker& worker) const;
  std::optional<Instant> next_timer() const;

 private:
  Instant SilentAt(const Worker& worker) const;
  // When what is owed since then is overdue: later for a worker that is heard from.
  Instant OverdueAt(const Worker& worker, Instant since, Duration limit) const;
  Instant StepDueAt(const Worker& worker) const;  // Instant{INT64_MAX}: nothing is due
  Instant UnansweredSince(const Worker& worker) const;
  Instant LateAt(const Worker& worker) const;
  bool CanProbe(const Worker& worker) const;
  Instant ProbeAt(const Worker& worker) const;
  void Probe(Worker& worker, Instant now);
  Instant ProbeDueAt(const Worker& worker) const;
  Instant AnswerDueAt(const Worker& worker) const;
  Instant ConnectDueAt(const Worker& worker) const;

  const CoreOptions& options_;
  const SuccessorList& successors_;
  Roster& roster_;
  Outbox& outbox_;
};

}  // namespace weft::swarm
