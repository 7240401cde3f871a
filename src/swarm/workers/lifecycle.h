// The life of plans (dynamic-graph-partitioning 4.4): Down -> Preparing -> Up, with an active and a
// staged plan. Asks for the bindings that a staged plan still lacks and makes it the active one
// when they are loaded; decides nothing about which plan is good (planning.h).
//
// A loss makes a hole in the active plan and nothing else: its other stages keep their bindings,
// layers, keys and values. Where workers stand by with the lost layers loaded, they are put in at
// once; else whoever plans stages a plan that differs from the active one in the hole.
//
// Memory: before PrepareStage goes to a worker, what it was told to load plus the new layers fits
// its offer. Room is made by dropping standbys, then experts, then what the active plan has there.
// Where that would stop a plan that serves, layers are downloaded first while it does.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/changes.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/plan_state.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

class Lifecycle {
 public:
  // Keeps references; all outlive it.
  Lifecycle(const CoreOptions& options, const Costs& costs, Roster& roster, Changes& changes,
            Outbox& outbox)
      : options_(options), costs_(costs), roster_(roster), changes_(changes), outbox_(outbox) {}

  // Makes `plan` the staged one in place of any other. Bindings that its workers have already for
  // the same layers are taken over. REQUIRES: its workers are in the roster and ready, no holes.
  void Stage(SwarmPlan plan, Instant now);
  // Asks a worker to hold layers that no plan has there, loaded. False: they do not fit.
  bool StandBy(Worker& worker, LayerSpan layers, Instant now);
  // Drops the standbys of this worker whose layers `is_wanted` does not want.
  void KeepStandbys(Worker& worker, const std::function<bool(LayerSpan)>& is_wanted);

  // A worker that has connected, and that has said Connect.
  void OnConnected(Worker& worker) const;
  void OnConnect(Worker& worker) const;

  // What workers say of downloads. An error: it cannot be.
  Status OnDownloadProgress(Worker& worker, const wire::pb::DownloadProgress& progress,
                            Instant now);
  Status OnLayerDownloaded(Worker& worker, const wire::pb::LayerDownloaded& downloaded,
                           Instant now);
  // It has failed at something, so that nothing is on its way; `is_all`: nor asked for any more.
  void EndDownload(Worker& worker, bool is_all) const;
  // It was told to load the layers for a while, beside its bindings.
  void NoteLoaded(Worker& worker, const LayerSpan& layers) const;
  // Its reports are not believed from now on: its claim counts again (WorkerMemory).
  void Doubt(Worker& worker) const;

  // Answers of workers. An error: the message is not legal now, the worker breaks the protocol.
  // OnPrepared drops the staged plan when the layers take more memory than it counted with.
  Status OnPrepared(Worker& worker, const wire::pb::Prepared& prepared, Instant now);
  // A worker failed to prepare: drops the staged plan if it was that one's.
  Status OnFailed(Worker& worker, const wire::pb::Failed& failed, Instant now);
  // A layer has arrived somewhere, or a download failed.
  void OnDownload(Instant now);

  // The worker is gone or must not be used any more. Returns true when a plan was hurt by it.
  bool OnWorkerGone(WorkerId worker, Instant now);

  // Asks for layers of [first, end) that the worker neither has nor was asked for.
  void Download(Worker& worker, uint32_t first, uint32_t end);
  // How long the worker is expected to need until it has these layers in memory.
  double LoadUs(const Worker& worker, LayerSpan layers) const;
  // Whether the layers fit the worker beside those of its bindings that stay, and what it measures.
  bool FitsBeside(const Worker& worker, LayerSpan layers,
                  const std::function<bool(const Binding&)>& stays) const;
  // Says which experts the worker is to hold from now on, all of them; the caller fills in their
  // sets. `load_us`: what it is expected to need for them.
  wire::pb::HoldExperts& HoldExperts(Worker& worker, std::vector<bool> experts,
                                     uint64_t memory_bytes, double load_us, Instant now);
  // Experts that are not in the set are not asked of the worker any more, from now on.
  void KeepExperts(Worker& worker, const std::vector<bool>& kept) const;
  // What came of HoldExperts: it holds what it was told to, or what it held before.
  // `weight_factor`: what it says that it takes, by these bytes of weights; nothing without any.
  void NoteExpertsHeld(Worker& worker, uint64_t weight_bytes,
                       std::optional<double> weight_factor) const;
  void NoteExpertsFailed(Worker& worker) const;
  void NoteExpertMemory(Worker& worker, uint64_t bytes) const;
  // Frees what neither a plan nor a standby needs on this worker.
  void Retire(Worker& worker);

  const SwarmPlan* active() const { return active_ ? &*active_ : nullptr; }
  const SwarmPlan* staged() const { return staged_ ? &*staged_ : nullptr; }
  // The staged plan is loaded everywhere and may take over (Swap).
  bool CanSwap() const;
  void Swap(Instant now);
  // Puts loaded standbys in the place of a worker that is slow to answer, for the same layers. It
  // stands by from then on, and its answer still counts where it comes first.
  bool Relieve(WorkerId late);
  // `plan`: of the core before this one, by the numbers of its bindings, without workers. Its
  // stages are put in as they come back (Resume), until another plan is staged.
  void Restore(SwarmPlan plan, BindingId last_binding);
  // A worker that came back holds these bindings still, and its memory is used as it was.
  void Resume(Worker& worker, const std::vector<Binding>& held, const WorkerMemory& before,
              Instant now);

  // Every layer has its worker: answers flow.
  bool serves() const { return active_ && !active_->HasHole(); }
  bool IsUsed(WorkerId worker) const;
  // Whether the layers fit the worker if it drops what it only stands by with.
  bool FitsBesidePlans(const Worker& worker, LayerSpan layers) const;
  // Loaded bindings that no plan runs.
  std::vector<BoundStage> Followers() const;
  // Raised whenever active(), Followers() or the bindings that exist may have changed.
  uint64_t version() const { return version_; }
  Instant last_swap() const { return last_swap_; }
  BindingId last_binding() const { return last_binding_; }
  // Whether the download phase has waited too long; the staged plan is then dropped by DropStaged.
  bool DownloadOverdue(Instant now) const;
  // Whether the staged plan fills a hole, and takes far longer than was predicted then.
  bool RepairOverdue(Instant now) const;
  void DropStaged(Instant now);
  std::optional<Instant> next_timer() const;

 private:
  static Binding* Find(Worker& worker, BindingId wanted);
  bool IsPlanned(BindingId binding) const;
  void NoteLoad(Worker& worker, const Binding& binding, Instant now) const;
  Instant RepairDeadline(Instant now) const;
  void BeginPreparing(Instant now);
  void MakeRoom(Worker& worker, LayerSpan layers, Instant now);
  void DropExperts(Worker& worker, Instant now);
  Binding& Prepare(Worker& worker, LayerSpan layers, uint32_t number, bool standby, Instant now);
  void TakeBack(const Worker& worker, Instant now);
  void FillHoles();
  std::pair<WorkerId, Binding*> WhoRelieves(const PlanStage& stage);
  bool FillFromStandbys(uint32_t first, uint32_t end);
  void DropBindings(Worker& worker, const std::function<bool(const Binding&)>& goes,
                    bool keep_measured = true);
  void Changed();

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Changes& changes_;
  Outbox& outbox_;
  std::optional<SwarmPlan> active_, staged_;
  std::optional<SwarmPlan> restored_;  // as Restore was given it
  bool downloading_ = false;           // the staged plan waits for layers before it is prepared
  Instant download_deadline_{INT64_MAX};
  Instant repair_deadline_{INT64_MAX};
  BindingId last_binding_;
  uint64_t version_ = 1;
  Instant last_swap_;
};

}  // namespace weft::swarm
