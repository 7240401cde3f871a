// Workers that stand by: what they are sent in idle time, and how far behind they are.
#include <algorithm>

#include "base/check.h"
#include "swarm/flow/chunk.h"
#include "swarm/flow/pipeline.h"

namespace weft::swarm {
namespace {

// A follower is sent this many rows at once, or more.
constexpr uint32_t kFollowerRows = 8;

// Its position; 0 where none is known.
uint32_t LastToken(const Session& session) {
  return session.tokens.empty() ? 0 : static_cast<uint32_t>(session.tokens.size()) - 1;
}

}  // namespace

// A follower computes only while its worker has nothing else to do, and only when some rows have
// come together: it is to lag by little, not to double the work of every token. What somebody waits
// for comes first, and a frame is a chunk of the follower itself: it may have to take over while it
// computes one.
void Pipeline::Feed(Stage& follower, Instant now) {
  Worker* worker = roster_.Find(follower.bound.worker);
  CHECK(worker != nullptr);
  if (!worker->steps->idle() || worker->offer.needs_onnx) return;
  const LayerSpan& layers = follower.bound.layers;
  const uint32_t most =
      std::min({chunk_rows_, MostRowsOf(layers), ChunkRows(options_, costs_, *worker, layers)});
  Batch batch;
  for (const bool active : {true, false})
    for (const auto& session : sessions_.sessions()) {
      if (batch.rows >= most || batch.runs.size() >= kRunsPerFrame) break;
      if (session->plan == plan_ && session->active.has_value() == active)
        FeedSession(*session, follower, most, batch);
    }
  if (!batch.runs.empty()) Send(follower, *worker, std::move(batch), now);
}

void Pipeline::FeedSession(Session& session, Stage& follower, uint32_t row_limit, Batch& batch) {
  StageProgress& progress = session.Track(follower.bound);
  // What it cannot compute is left to those who have to.
  if (progress.held_at_failure == progress.held) return;
  if (!TakeShare(session, progress, follower)) return;
  // The last known token's row may be cut back again, and is not worth a frame. Those in front of
  // it are what they are, of a prompt that is being read, too: whoever takes over in its midst is
  // not to begin with row 0. Where the logits of a prompt are wanted, each row is.
  const bool has_outputs = session.active && session.active->request.want_logits;
  const uint32_t known =
      has_outputs ? session.completed : std::max(session.completed, LastToken(session));
  const uint32_t end = std::min(Available(session, follower.bound.layers), known);
  if (progress.sent + kFollowerRows > end) return;
  if (follower.bound.layers.first > 0 &&
      !session.history[follower.bound.layers.first].Has(progress.sent))
    return;
  const uint32_t limit = std::min(row_limit - batch.rows, end - progress.sent);
  AddRun(session, progress, follower, limit, batch);
}

// Whether the stages of a plan that are not active yet have had nearly all that live sessions hold.
// Those that cannot be fed beforehand (nobody gives the rows at their cut) do not count.
bool Pipeline::HasCaughtUp(const SwarmPlan& plan) const {
  for (const Stage& follower : followers_) {
    if (!plan.Uses(follower.bound.binding)) continue;
    if (roster_.Find(follower.bound.worker)->offer.needs_onnx) continue;
    for (const auto& session : sessions_.sessions()) {
      if (session->plan != plan_ || !session->active) continue;
      const StageProgress* progress = session->Find(follower.bound.binding);
      const uint32_t held = progress ? progress->held : 0;
      const uint32_t first = follower.bound.layers.first;
      const auto rows = session->history.find(first);
      const bool fed = first == 0 || (rows != session->history.end() && rows->second.Has(held));
      if (fed && held + 2 * kFollowerRows < session->completed) return false;
    }
  }
  return true;
}

uint64_t Pipeline::Lag(const BoundStage& stage) const {
  uint64_t rows = 0;
  const auto held_of = [&](Session& session) {
    const StageProgress* progress = session.Find(stage.binding);
    return progress ? progress->held : 0;
  };
  for (const auto& session : sessions_.sessions()) {
    if (session->plan != plan_) continue;
    uint32_t held = held_of(*session);
    // What it shares with others they bring along.
    for (const Kin& kin : session->kin) {
      Session& other = *sessions_.Find(kin.session);
      const uint32_t has = other.id < session->id ? other.completed : held_of(other);
      held = std::max(held, std::min(kin.common, has));
    }
    rows += session->completed - std::min(held, session->completed);
  }
  return rows;
}

}  // namespace weft::swarm
