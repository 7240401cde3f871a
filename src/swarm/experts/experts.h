// Who holds which experts of the model (moex-expert-disaggregation): where a plan's stages are hubs
// (LayerForm::kHub), the experts of their layers are with workers that take them, in whatever
// memory their own layers leave. This part says who is to hold what, tells hubs whom they can ask,
// and passes on what they say to each other.
//
//   plan with hubs -> PlaceExperts -> HoldExperts -> worker loads -> ExpertsHeld -> ExpertHolders
//
// A worker has one HoldExperts to answer at a time. What it is told to drop is not asked of it any
// more from that moment on, so hubs hear of that first. An expert whose place is to be elsewhere
// stays where it is until somebody who keeps it has said that it is loaded.
//
// A worker loads first what nobody holds, since nothing answers before that is there, then further
// copies, hot experts before others. So it is told of them in turns, of what it loads in some ten
// seconds each; a tab, which loads whole shards anew, of everything at once:
//
//   worker holds              1 2        is told  1 2 5 6   (nobody holds these)
//   later                     1 2 5 6             1 2 5 6 3 7
//
// Where an expert is lost with all its holders, the step that needs it waits in its hub, however
// long it takes somebody else to load it: the hub's deadlines do not run meanwhile (waits).
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "swarm/changes.h"
#include "swarm/experts/popularity.h"
#include "swarm/experts/served_hubs.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/lifecycle.h"
#include "swarm/workers/probation.h"
#include "swarm/workers/worker.h"
#include "wire/expert_sets.h"

namespace weft::swarm {

class Experts {
 public:
  // Keeps references; all outlive it.
  Experts(const CoreOptions& options, const Costs& costs, Roster& roster, Lifecycle& lifecycle,
          const Probation& probation, const Popularity& popularity, ServedHubs& served_hubs,
          Changes& changes, Outbox& outbox);

  // After every event: says what follows from the plan and the workers that there are now.
  void Settle(Instant now);

  // The answer to HoldExperts. An error: the message is not legal now.
  Status OnHeld(Worker& worker, const wire::pb::ExpertsHeld& held);
  // Whether the failure is one of these; the worker holds what it held before, at most.
  bool OnFailed(Worker& worker, const wire::pb::Failed& failed);

  // Passes a shard message on to whom it names, or to the dispatcher of a hub that the server
  // serves. kNowhere: that one has gone, or has another part by now, and the message is dropped.
  // kWrong: this worker has no business with that one, or it is not a shard message.
  // An error: what a hub has said to the server is not legal.
  enum class Forwarded { kPassed, kNowhere, kWrong };
  Result<Forwarded> Forward(Worker& sender, const Slice& message, Instant now);

  // Every expert that the hubs of this plan ask for is held by somebody.
  bool Covers(const SwarmPlan& plan) const;
  // Experts that the plan's hubs need, and how many of them somebody holds: progress, for people.
  struct Coverage {
    uint32_t needed = 0, held = 0;
    uint64_t missing_bytes = 0;  // of those that found no place
  };
  const Coverage& coverage() const { return coverage_; }

 private:
  using Set = std::vector<bool>;  // of experts, by number: those of layer 0, of layer 1, ...

  void Mark(const SwarmPlan* plan, Set& needed) const;
  uint64_t BytesOf(const Set& set) const;
  uint64_t BytesOf(uint32_t i) const;
  // The number of what was placed. Ranges of products are placed as experts of a layer behind the
  // last one, so that these may have other bytes.
  uint32_t NumberOf(uint32_t placed_layer, uint32_t expert) const;
  double WeightFactor(const Worker& worker) const;
  uint64_t MemoryBytes(const Worker& worker, uint64_t weight_bytes) const;
  uint64_t RoomFor(const Worker& worker) const;
  bool MayHold(const Worker& worker, Instant now) const;
  void Place(Instant now);
  void LetGoOfStandbys(Instant now);
  void Target(const Worker& worker, bool keeps, Set& target) const;
  // What the worker wants and does not hold, the most urgent first: numbers.
  std::vector<uint32_t> Missing(const Worker& worker) const;
  double LoadBytesPerUs(const Worker& worker) const;
  uint64_t MostAtATime(const Worker& worker) const;
  Result<Forwarded> ToServer(Worker& hub, const Slice& message, Instant now);
  void CountHolders();
  void NoteCoverage();
  void TellHolder(Worker& worker, Set target, Instant now);
  void TellHubs(Instant now);
  void TellLosses(const Set& asked, wire::pb::ExpertHolders::Losses& losses) const;
  Forwarded ForwardChannel(const Worker& hub, const Worker& holder, const Slice& message);
  std::vector<wire::LayerExperts> ByLayer(const Set& set, const Set& of_layers) const;
  uint64_t LongestMessage() const;

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Lifecycle& lifecycle_;
  const Probation& probation_;
  const Popularity& popularity_;
  ServedHubs& served_hubs_;
  Changes& changes_;
  Outbox& outbox_;
  std::vector<uint32_t> first_number_;  // by layer, and one past the last
  std::vector<uint32_t> layer_of_;      // by number
  // Of each expert: how many workers hold it, and of them those whose place it is.
  std::vector<uint32_t> holders_, settled_;
  Set needed_;                      // by the last plan with hubs
  uint64_t lifecycle_version_ = 0;  // as of the last Settle
  uint32_t last_statement_ = 0;     // ExpertHolders.statement
  Coverage coverage_;
};

}  // namespace weft::swarm
