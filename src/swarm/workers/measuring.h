// Times workers that have nothing better to do (dynamic-graph-partitioning 4.3.2): downloads some
// transformer layers to them, then asks for seven runs of two ranges. Never in the way of a first
// plan. With it, or alone, go the rows by which it is checked (checks.h).
#pragma once

#include <optional>

#include "swarm/workers/checks.h"
#include "swarm/workers/lifecycle.h"
#include "swarm/workers/measurement.h"

namespace weft::swarm {

class Measuring {
 public:
  Measuring(const CoreOptions& options, const Costs& costs, Roster& roster, Lifecycle& lifecycle,
            Checks& checks, Changes& changes, Outbox& outbox)
      : options_(options),
        costs_(costs),
        roster_(roster),
        lifecycle_(lifecycle),
        checks_(checks),
        changes_(changes),
        outbox_(outbox) {}

  // Starts what may start. `calm`: the swarm serves, or cannot serve for now, and no plan is on its
  // way; `idle`: besides, no request is active; `requests`: that have ended. True: somebody turned
  // out to hold too little.
  bool Settle(bool calm, bool idle, uint64_t requests, Instant now);
  // The device is back: what was measured of it counts, but for its line.
  void Resume(Worker& worker, const WorkerTimes& times, bool was_tried) const;
  // Whether anything came of it that others should know; an error: nothing was asked, or the answer
  // is malformed.
  Result<bool> OnMeasured(Worker& worker, const wire::pb::Measured& measured, Instant now);
  // Failed with binding 0 ends a measurement under way; false: none was.
  bool OnFailed(Worker& worker, Instant now);
  // The measurement has taken too long.
  bool IsOverdue(const Worker& worker, Instant now) const;
  // It may still come: a device that computes for others may not get to it in time.
  void EndOverdue(Worker& worker, Instant now);
  std::optional<Instant> next_timer() const;
  // Devices that were timed for the first time, since the start.
  uint64_t measured_count() const { return measured_count_; }

 private:
  std::optional<MeasureRanges> PickRanges(const Worker& worker) const;
  std::optional<MeasureRanges> PickKept(const Worker& worker) const;
  std::optional<Probe> MakeRoomForProbe(Worker& worker);
  bool Fits(const Worker& worker, uint32_t first, uint32_t end) const;
  bool MayMeasure(const Worker& worker, bool idle, Instant now) const;
  std::optional<Probe> PickProbe(const Worker& worker) const;
  void Start(Worker& worker, const MeasureRanges& ranges, std::optional<Probe> only, Instant now);
  void AskAgain(Worker& worker, Instant now);
  bool IsLate(const Worker& worker, const wire::pb::Measured& measured) const;
  void Ask(Worker& worker, Instant now);
  void GiveUp(Worker& worker, Instant now);

  const CoreOptions& options_;
  const Costs& costs_;
  Roster& roster_;
  Lifecycle& lifecycle_;
  Checks& checks_;
  Changes& changes_;
  Outbox& outbox_;
  uint64_t requests_ = 0;  // that have ended
  uint64_t measured_count_ = 0;
};

}  // namespace weft::swarm
