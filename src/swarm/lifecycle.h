// The life of plans (dynamic-graph-partitioning 4.4): Down -> Preparing -> Committing -> Up with an
// active and a staged plan. Sends the control messages that bring a staged plan up beside the
// active one and swaps them; decides nothing about which plan is good (planning.h).
//
// Memory: before PrepareStage goes to a worker, what it was told to load plus the new stage fits
// its offer. Where that cannot hold beside the active plan, layers are downloaded first while the
// active plan serves, then the active plan is given up and the streams pause until the staged one
// is up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/costs.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/plan_state.h"
#include "swarm/worker.h"

namespace weft::swarm {

class Lifecycle {
 public:
  // Of the staged plan. kCommitting asks workers without a part in the active plan, which goes on
  // serving meanwhile; kSwitching asks those that both plans use, which take no steps of the old
  // epoch any more.
  enum class Phase { kDownloading, kPreparing, kCommitting, kSwitching };

  // Keeps references; all outlive it.
  Lifecycle(const CoreOptions& options, const Costs& costs, Roster& roster, Outbox& outbox)
      : options_(options), costs_(costs), roster_(roster), outbox_(outbox) {}

  // Makes `plan` the staged one in place of any other. REQUIRES: its workers are in the roster and
  // ready.
  void Stage(SwarmPlan plan, Instant now);

  // Answers of workers. An error: the message is not legal now, the worker breaks the protocol.
  // OnPrepared drops the staged plan when the layers take more memory than it counted with.
  Status OnPrepared(Worker& worker, const wire::pb::Prepared& prepared, Instant now);
  Status OnCommitted(Worker& worker, const wire::pb::Committed& committed, Instant now);
  // A worker failed to prepare or commit: drops the staged plan if it was that one's.
  Status OnFailed(Worker& worker, const wire::pb::Failed& failed, Instant now);
  // A layer has arrived somewhere, or a download failed.
  void OnDownload(Instant now);

  // The worker is gone or must not be used any more. Returns true when a plan was lost by it.
  bool OnWorkerGone(WorkerId worker, Instant now);

  // Asks for layers of [first, end) that the worker neither has nor was asked for.
  void Download(Worker& worker, uint32_t first, uint32_t end);
  // Frees whatever no plan needs on this worker.
  void Retire(Worker& worker);

  const SwarmPlan* active() const { return active_ ? &*active_ : nullptr; }
  const SwarmPlan* staged() const { return staged_ ? &*staged_ : nullptr; }
  // The staged plan is loaded everywhere and about to serve; an active one may serve until then.
  bool committing() const {
    return staged_ && (phase_ == Phase::kCommitting || phase_ == Phase::kSwitching);
  }
  // No new frames: workers of the active plan are being switched, or that was broken off and they
  // wait for a new epoch.
  bool paused() const {
    return (active_ && rebinding_) || (committing() && (!active_ || phase_ == Phase::kSwitching));
  }
  bool IsUsed(WorkerId worker) const;
  Instant last_swap() const { return last_swap_; }
  // Whether the download phase has waited too long; the staged plan is then dropped by DropStaged.
  bool DownloadOverdue(Instant now) const;
  void DropStaged(Instant now);
  std::optional<Instant> next_timer() const;

 private:
  bool FitsBeside(const Worker& worker, const PlanStage& stage) const;
  bool AllFitBeside() const;
  void BeginPreparing(Instant now);
  void AdvanceCommit(Instant now);
  bool ServesNow(const PlanStage& stage) const { return active_ && active_->StageOf(stage.worker); }
  void Withdraw();
  void Swap(Instant now);
  void KeepOnly(Worker& worker, const LayerSet& keep);

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Outbox& outbox_;
  std::optional<SwarmPlan> active_, staged_;
  Phase phase_ = Phase::kPreparing;
  bool rebinding_ = false;  // some workers have committed an epoch that was dropped since
  Instant download_deadline_{INT64_MAX};
  uint32_t next_epoch_ = 1;
  Instant last_swap_;
};

}  // namespace weft::swarm
