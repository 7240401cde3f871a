// What follows from a check: who has passed may be planned with, who has failed is not used, and
// nobody goes on from what it has computed.
#include "swarm/core/state.h"

namespace weft::swarm {

void State::OnVerdicts() {
  for (const Verdict& verdict : checks.TakeVerdicts()) {
    Worker& worker = *roster.Find(verdict.worker);
    changes.Note({.view = true, .standbys = true, .plan_at = now});
    if (verdict.passed) continue;
    members.NoteProblem(worker, verdict.problem);
    const std::string named = "worker " + ToString(worker.id) + " (" + worker.offer.name + ", " +
                              worker.address + "): " + verdict.problem;
    outbox.Add(Warn{named});
    probation.PutAside(worker.probation_key, now);
    changes.Note({.experts = true});
    TakeOut(worker.id);
    if (verdict.doubted_since)
      requests.Doubt(*verdict.doubted_since, verdict.is_proven ? verdict.problem : "", now);
  }
}

}  // namespace weft::swarm
