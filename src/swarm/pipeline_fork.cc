// Forks: what one session has computed at a stage, others that begin alike need not (session.h).
#include <algorithm>

#include "base/check.h"
#include "swarm/pipeline.h"
#include "wire/fork_frame.h"

namespace weft::swarm {
namespace {

// Fewer positions are computed rather than forked, or waited for.
constexpr uint32_t kLeastShare = 16;

// Whether `other` is sure to go on computing its prompt, and came before `session`: then that one
// waits, and never the two for each other.
bool GoesAhead(const Session& other, const Session& session) {
  return other.active && !other.active->request.want_logits && other.active->step_failures == 0 &&
         other.active->victims.empty() && (!session.active || other.admission < session.admission);
}

}  // namespace

Pipeline::Share Pipeline::ShareOf(const Session& session, const StageProgress& progress,
                                  const Kin& kin, bool follows) const {
  Share share;
  share.donor = sessions_.Find(kin.session);
  CHECK(share.donor != nullptr);
  // The last known token runs, for what comes of it.
  const uint32_t most =
      session.active ? static_cast<uint32_t>(session.tokens.size()) - 1 : session.completed;
  const uint32_t common = std::min(kin.common, most);
  share.theirs = share.donor->Find(progress.binding);
  if (share.theirs != nullptr)
    share.now = share.reach = share.donor->LastUpTo(*share.theirs, common);
  uint32_t passes = 0;
  if (!follows && GoesAhead(*share.donor, session))
    passes = common;
  else if (share.theirs != nullptr && share.theirs->sent > share.theirs->held &&
           share.theirs->sent > progress.sent)
    passes =
        std::min(common, share.theirs->sent);  // whoever wants these steps, they are on their way
  share.reach = std::max(share.reach, share.donor->WillPass(passes));
  return share;
}

// Returns whether the stage may be sent rows of the session: not while another one is about to
// compute the same. Waiting is quicker: the two would share the stage's time for rows that are
// needed once.
bool Pipeline::TakeShare(Session& session, StageProgress& progress, const Stage& stage) {
  if (session.kin.empty() || progress.forks_in_vain) return true;
  if (session.active && session.active->request.want_logits) return true;
  Share best;
  for (const Kin& kin : session.kin) {
    if (kin.common < progress.sent + kLeastShare) continue;
    const Share share = ShareOf(session, progress, kin, stage.follows);
    if (share.reach > best.reach || (share.reach == best.reach && share.now > best.now))
      best = share;
  }
  if (best.reach < progress.sent + kLeastShare) return true;
  if (best.now < best.reach) return false;
  Fork(session, progress, stage, best);
  return true;
}

void Pipeline::Fork(Session& session, StageProgress& progress, const Stage& stage,
                    const Share& share) {
  session.Fork(progress, *share.theirs, share.now);
  const uint32_t behind = stage.bound.layers.end;
  if (!stage.last && !stage.follows && session.history[behind].end() < share.now) {
    // The rows that came of it are as good as if they had come of this session.
    RowHistory& rows = session.history[behind];
    const auto theirs = share.donor->history.find(behind);
    if (theirs != share.donor->history.end() && theirs->second.end() >= share.now)
      rows = theirs->second;
    else
      rows.Restart(share.now);
    rows.Truncate(share.now);
  }
  wire::Fork frame;
  frame.epoch = stage.bound.binding;
  frame.stage = static_cast<uint16_t>(stage.bound.stage);
  frame.from = share.donor->id;
  frame.session = session.id;
  frame.generation = progress.generation;
  frame.position_count = share.now;
  SendData data{stage.bound.worker, {}};
  data.pieces.emplace_back(wire::EncodeFork(frame));
  traffic_.bytes_sent += wire::kForkBytes;
  outbox_.Add(std::move(data));
}

}  // namespace weft::swarm
