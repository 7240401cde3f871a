// Forks: what one session has computed at a stage, others that begin alike need not (session.h).
#include <algorithm>

#include "base/check.h"
#include "swarm/flow/pipeline.h"
#include "wire/fork_frame.h"

namespace weft::swarm {
namespace {

// Whether `other` is sure to go on computing its prompt, and came before `session`: then that one
// waits, and never the two for each other.
bool GoesAhead(const Session& other, const Session& session) {
  return other.plan == session.plan && other.active && !other.active->request.want_logits &&
         other.active->step_failures == 0 && other.active->victims.empty() &&
         (!session.active || other.admission < session.admission);
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

Pipeline::Share Pipeline::BestShare(const Session& session, const StageProgress& progress,
                                    const Stage& stage) const {
  Share best;
  if (progress.forks_in_vain) return best;
  if (session.active && session.active->request.want_logits) return best;
  for (const Kin& kin : session.kin) {
    if (kin.common < progress.sent + kLeastShare) break;
    const Share share = ShareOf(session, progress, kin, stage.follows);
    if (share.reach > best.reach || (share.reach == best.reach && share.now > best.now))
      best = share;
  }
  return best;
}

// By what its client was served, or the least that a client was whose session waits for this one:
// else that one would wait for the turns of a client that had much.
uint64_t Pipeline::RankOf(const Session& session, const Stage& stage) const {
  uint64_t rank = session.active->served();
  const auto found =
      std::ranges::find(session.progress, stage.bound.binding, &StageProgress::binding);
  const uint32_t sent = found == session.progress.end() ? 0 : found->sent;
  for (const Kin& kin : session.kin) {
    if (kin.common <= sent) break;
    const Session& other = *sessions_.Find(kin.session);
    if (other.active && GoesAhead(session, other)) rank = std::min(rank, other.active->served());
  }
  return rank;
}

// Whether the stage behind has, or will be given, every row up to where the fork begins. Rows that
// it lacks come out of history, its own or the donor's; where neither has them somebody has to
// compute them, and a fork in front of it would only be taken back.
bool Pipeline::SuitsWhatIsBehind(Session& session, const Stage& stage, const Share& share) {
  if (stage.last || stage.follows) return true;
  const Stage& next = *(&stage + 1);
  const RowHistory& own = session.history[stage.bound.layers.end];
  const RowHistory& theirs = share.donor->history[stage.bound.layers.end];
  uint32_t first = share.now;
  if (own.CanGoOnWith(theirs, share.now))
    first = own.end() > own.first() ? own.first() : theirs.first();
  else if (theirs.end() >= share.now)
    first = theirs.first();
  if (!next.bound.binding.is_set()) return first == 0;
  const StageProgress& behind = session.Track(next.bound);
  return first <= behind.sent || first <= BestShare(session, behind, next).now;
}

// Whether the session waits for what another one is about to compute at the stage.
bool Pipeline::WaitsForAnother(const Session& session, const StageProgress& progress,
                               const Stage& stage) const {
  const Share best = BestShare(session, progress, stage);
  return best.reach >= progress.sent + kLeastShare && best.now < best.reach;
}

// Whether it does so behind this stage, and as many of its rows wait there as may wait of all.
bool Pipeline::WaitsBehind(Session& session, size_t stage_index) const {
  if (stage_index + 1 == stages_.size() || !stages_[stage_index + 1].bound.binding.is_set())
    return false;
  const Stage& next = stages_[stage_index + 1];
  const StageProgress* progress = session.Find(next.bound.binding);
  if (progress == nullptr || !WaitsForAnother(session, *progress, next)) return false;
  const auto known = session.history.find(next.bound.layers.first);
  return known != session.history.end() &&
         known->second.end() - known->second.first() >= uint64_t{kQueuedChunks} * chunk_rows_;
}

// Returns whether the stage may be sent rows of the session: not while another one is about to
// compute the same. Waiting is quicker: the two would share the stage's time for rows that are
// needed once.
bool Pipeline::TakeShare(Session& session, StageProgress& progress, const Stage& stage) {
  const Share best = BestShare(session, progress, stage);
  if (best.reach < progress.sent + kLeastShare) return true;
  if (best.now < best.reach) return false;
  if (!SuitsWhatIsBehind(session, stage, best)) return true;
  Fork(session, progress, stage, best);
  return true;
}

void Pipeline::Fork(Session& session, StageProgress& progress, const Stage& stage,
                    const Share& share) {
  session.Fork(progress, *share.theirs, share.now);
  const uint32_t behind = stage.bound.layers.end;
  if (!stage.last && !stage.follows && session.history[behind].end() < share.now) {
    // The rows that came of it are as good as if they had come of this session.
    const RowHistory& theirs = share.donor->history[behind];
    if (theirs.end() >= share.now)
      session.history[behind].GoOnWith(theirs, share.now);
    else
      session.history[behind].Restart(share.now);
  }
  wire::Fork frame;
  frame.binding = stage.bound.binding.value();
  frame.stage = static_cast<uint16_t>(stage.bound.stage);
  frame.from = share.donor->id.value();
  frame.session = session.id.value();
  frame.generation = progress.generation;
  frame.position_count = share.now;
  SendData data{stage.bound.worker, {}};
  data.pieces.emplace_back(wire::EncodeFork(frame));
  totals_.traffic.bytes_sent += wire::kForkBytes;
  outbox_.Add(std::move(data));
}

}  // namespace weft::swarm
