// ServedHubs: whom to ask for the experts of hubs that leave it to the server (rows_to_server of
// Connect): tabs and headless workers. Each has a dispatcher here, of the kind that a native hub
// has itself (dispatch/dispatcher.h).
//
//   hub --- ROWS: a layer's rows, the experts and weights of their slots ---> server
//           server --- DISPATCH ---> holders --- RESULT ---> server
//   hub <-- GIVEN: for each row the weighted sum of its slots -------------- server
//
// A row crosses the hub's line once in each direction, however many experts it asks for. Rows are
// added up in their routes' order, so that placements and copies change no bit here, either.
//
// A long ROWS is asked for in portions that holders' messages have room for. A hub has one ROWS
// under way: another one, or a lost connection, ends it. Every other ROWS is answered: a step waits
// for it, and other work for the step.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "dispatch/dispatcher.h"
#include "dispatch/hub_stats.h"
#include "swarm/experts/hub_reports.h"
#include "swarm/options.h"
#include "swarm/outbox.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// A worker's number in shard messages; 0 is the server.
inline uint32_t PeerOf(WorkerId worker) {
  return static_cast<uint32_t>(worker.value());
}

class ServedHubs {
 public:
  // Keeps references; all outlive it.
  ServedHubs(const CoreOptions& options, HubReports& reports, Outbox& outbox)
      : options_(options), reports_(reports), outbox_(outbox) {}

  // Who can be asked for this hub from now on. REQUIRES: of the model, with a rising number.
  void SetHolders(const Worker& hub, const wire::pb::ExpertHolders& statement, Instant now);
  // It is no hub any more: what it waits for does not come.
  void Retire(const Worker& hub);
  // It has gone.
  void Forget(WorkerId hub) { hubs_.erase(hub); }
  bool Serves(WorkerId hub) const { return hubs_.contains(hub); }

  // A message of a hub to the server. An error: it is not legal, and closes the connection.
  Status OnHub(const Worker& hub, const Slice& message, Instant now);
  // What a holder says to this hub: it counts against the holder where it cannot be used.
  void OnHolder(const Worker& hub, const Worker& holder, const Slice& message, Instant now);
  // REQUIRES: what was due is told once, with the roster of now.
  void OnTimer(const Roster& roster, Instant now);
  std::optional<Instant> next_timer() const;

 private:
  // What a hub has asked, and how much of it is done.
  struct Asked {
    wire::ExpertFrame rows;
    std::vector<float> values;  // of it: each row, the experts of its slots, their weights
    bool gives_way = false;     // other work waits: where nobody holds the experts, it is given up
    uint32_t begun_tokens = 0;  // of portions that are done or under way
    std::vector<float> sums;    // of those that are done

    std::span<const float> RowAt(size_t row) const;
    float ExpertAt(size_t row, uint32_t slot) const;
    float WeightAt(size_t row, uint32_t slot) const;
  };
  struct Served {
    dispatch::Dispatcher dispatcher{dispatch::Options()};
    dispatch::HubStats stats;
    std::optional<Asked> asked;
    std::optional<Instant> timer;
  };

  Status CheckRows(const Asked& asked) const;
  void OnRows(const Worker& hub, Served& served, Asked asked, Instant now);
  void GiveWay(const Worker& hub, Served& served, Instant now);
  void BeginPortion(const Worker& hub, Served& served, Instant now);
  void Apply(const Worker& hub, Served& served, dispatch::Actions actions, Instant now);
  static void AddUp(Asked& asked, std::span<const float> slot_rows);
  void Say(const Worker& hub, const wire::ExpertFrame& frame);
  void TellStats(const Worker& hub, Served& served, Instant now);

  const CoreOptions& options_;
  HubReports& reports_;
  Outbox& outbox_;
  std::map<WorkerId, Served> hubs_;
};

}  // namespace weft::swarm
