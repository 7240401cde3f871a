// Who may run the whole model alone (RunHere). It takes the work of all others away and lets one
// device see every prompt, so its user has to show the right: the API key, a connection from the
// server's own machine and user, or the consent of the swarm's owner, who is asked on the page of
// the swarm and has half a minute. And a plan that serves is never replaced by a device that has
// not passed its check (checks.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "swarm/plan/planning.h"
#include "swarm/snapshot.h"
#include "swarm/workers/checks.h"
#include "wire/whole_frame.h"

namespace weft::swarm {

class WholeWishes {
 public:
  WholeWishes(const CoreOptions& options, Roster& roster, Members& members, Checks& checks,
              Planning& planning, Changes& changes)
      : options_(options),
        roster_(roster),
        members_(members),
        checks_(checks),
        planning_(planning),
        changes_(changes) {}

  // The worker is told in any case.
  void OnWish(Worker& worker, const wire::RunHere& wish, Instant now);
  // Of somebody who is not asked for, nothing happens.
  void OnConsent(WorkerId worker, bool allowed, Instant now);
  void OnWorkerGone(WorkerId worker) { asked_.erase(worker); }
  void EndOverdue(Instant now);
  std::optional<Instant> next_timer() const;
  std::vector<ConsentSnapshot> Consents(Instant now) const;

 private:
  bool HasRight(const std::string& api_key) const;
  // Why it may not now; empty: it may.
  std::string Obstacle(const Worker& worker, Instant now) const;
  void NoteTime(const std::string& device, Instant now);
  void End(Worker& worker, const std::string& message, Instant now);

  const CoreOptions& options_;
  Roster& roster_;
  Members& members_;
  Checks& checks_;
  Planning& planning_;
  Changes& changes_;
  std::map<std::string, Instant> last_;  // when a device was let ask last
  std::map<WorkerId, Instant> asked_;    // the owner, until then
};

}  // namespace weft::swarm
