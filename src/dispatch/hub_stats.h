// HubStats: what a hub tells the orchestrator of those who hold experts for it. The dispatcher
// counts from the first news of a holder until it hears that the holder holds nothing any more. The
// differences since the last message are told, so that nothing is counted twice or lost in between.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "dispatch/dispatcher.h"
#include "wire/control.pb.h"

namespace weft::dispatch {

class HubStats {
 public:
  // How often somebody wants to be told; 0: nobody does.
  void SetInterval(Duration interval) { interval_ = interval; }
  // Before the dispatcher hears of other holders, and after: those that have gone are counted from
  // nothing when they come again.
  void Collect(const Dispatcher& dispatcher);
  void DropWhoIsGone(const Dispatcher& dispatcher);
  // The rows of a layer chose these, each slot one.
  void NoteRoutes(uint16_t layer, std::span<const uint32_t> experts);
  // nullopt: nothing has happened, or not enough time has passed.
  std::optional<wire::pb::HolderStats> Take(Instant now, const Dispatcher& dispatcher);

 private:
  Duration interval_;
  std::optional<Instant> told_at_;
  std::map<uint32_t, HolderStats> seen_;              // as of the last Collect, of each holder
  std::map<uint32_t, HolderStats> untold_;            // the differences until then
  std::map<uint16_t, std::vector<uint32_t>> routes_;  // untold, by layer and expert
};

}  // namespace weft::dispatch
