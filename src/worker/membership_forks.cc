// Membership's part for sessions that begin as another one (wire/fork_frame.h).
#include "wire/fork_frame.h"
#include "worker/membership.h"

namespace weft::worker {

// A fork that cannot be made is not answered: the next step of its session does not continue what
// is held, and says so.
void Membership::OnFork(ByteSpan message) {
  if (!joined_) return Violation("The server sent a fork before Init was answered.");
  const auto fork = wire::DecodeFork(message);
  if (!fork.ok()) return End(fork.error());
  const StageTable::Binding* binding = stages_.ToRun(fork->epoch, fork->stage);
  if (binding == nullptr || !TakeSession(fork->session, fork->position_count).ok()) return;
  waiting_.push_back(
      Work(ForkSession{binding->layers,
                       {fork->from, fork->session, fork->generation, fork->position_count},
                       binding->shards}));
}

}  // namespace weft::worker
