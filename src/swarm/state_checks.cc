// What follows from a check: who has passed may be planned with, who has failed is not used.
#include "swarm/state.h"

namespace weft::swarm {

void State::OnVerdicts() {
  for (const Verdict& verdict : checks.TakeVerdicts()) {
    Worker& worker = *roster.Find(verdict.worker);
    outbox.NoteChange();
    planning.NoteRosterChange();
    planning.Want(now);
    if (verdict.passed) continue;
    worker.record.problem = verdict.problem;
    outbox.Add(Warn{"worker " + std::to_string(worker.id) + " (" + worker.offer.name + ", " +
                    worker.address + "): " + verdict.problem});
    probation.PutAside(worker.probation_key, now);
    experts.NoteChange();
    lifecycle.OnWorkerGone(worker.id, now);
    planning.OnWorkerGone(worker.id, now);
  }
}

}  // namespace weft::swarm
