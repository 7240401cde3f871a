// Claims: what devices hold of sessions that an earlier core of the swarm began, and this one has
// not. Whoever had the request there may submit it again and say which session it had
// (Request::resume). Then the session goes on, and its prompt is not computed again.
//
//   a device connects   session 7: generation 12, 2,600 positions
//   a request comes     session 7, in which generations 11 to 13 were its own
//   -> session 7 goes on at the last of these 2,600 positions whose tokens the request knows
//
// A device may have missed that an earlier core took the session back, and hold rows of other
// tokens; or the request lost its session to another one, and whoever asked was not told any more.
// So each request begins with a new generation at every device, also for what it found there. Only
// rows of generations count of which whoever asked had heard that they were the request's.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/clock.h"
#include "swarm/binding.h"
#include "swarm/events.h"

namespace weft::swarm {

struct Claim {
  BoundStage stage;
  uint32_t generation = 0, positions = 0;
  std::set<uint32_t> marks;  // where recurrent state is kept

  // Whether its rows are of the tokens of the request that had the session.
  bool IsOf(const SessionTrace& trace) const {
    return generation >= trace.first_generation && generation <= trace.last_generation;
  }
};

class Claims {
 public:
  // Takes the place of an earlier claim of this binding. All of a session are kept until `until`.
  void Note(SessionId session, Claim claim, Instant until);
  bool Has(SessionId session) const { return sessions_.contains(session); }
  // Those that hold something of the session; and those that hold at least so many rows of the
  // request's tokens.
  std::vector<BindingId> BindingsOf(SessionId session) const;
  std::vector<BindingId> HoldersOf(const SessionTrace& trace, size_t positions) const;
  size_t session_count() const { return sessions_.size(); }
  // Gives them, by binding, and forgets them.
  std::vector<Claim> Take(SessionId session);

  // Forgets what these bindings hold.
  void Forget(const std::function<bool(const BoundStage&)>& is_gone);
  // Forgets the session that was claimed first. REQUIRES: there is one.
  SessionId DropFirst();
  // Forgets those whose time is over, and gives them.
  std::vector<SessionId> DropOverdue(Instant now);
  // When DropOverdue has something to do.
  std::optional<Instant> next_timer() const;

 private:
  struct Claimed {
    Instant until;
    std::map<BindingId, Claim> claims;
  };
  std::map<SessionId, Claimed> sessions_;
};

}  // namespace weft::swarm
