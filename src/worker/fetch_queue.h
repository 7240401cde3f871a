// A list of things that need layers says which are fetched next: those of stages and measurements
// before standby layers, and among equals the older first. One fetch is under way at a time; it is
// interrupted when what wanted it is gone, or when something more urgent waits. Layers that came
// are not asked for again.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace weft::worker {

class FetchQueue {
 public:
  enum class Urgency { kStage, kStandby };

  // `ticket` names what wants the layers from here on; a ticket is added once.
  void Add(uint32_t ticket, Urgency urgency, std::vector<uint32_t> layers);
  // It no longer wants them. Does nothing for a ticket that is not known.
  void Drop(uint32_t ticket);
  void Clear();

  // The layers to fetch now, which are under way from then on; nullopt: nothing to begin.
  std::optional<std::vector<uint32_t>> Begin();
  // Whether to stop what is under way, because of something that happened since the last call.
  bool TakeInterrupt();
  // A layer of the fetch under way has come.
  void LayerCame(uint32_t layer);

  enum class End { kComplete, kInterrupted, kFailed };
  // The fetch under way has ended. Returns the ticket it was for when that has now all its layers
  // or has failed, which takes it off the list; nullopt when it goes on later or was dropped.
  std::optional<uint32_t> Ended(End end);
  bool under_way() const { return under_way_; }
  // What the fetch under way is for; nullopt: nobody wants it any more.
  std::optional<uint32_t> served() const { return served_; }

 private:
  struct Want {
    uint32_t ticket = 0;
    Urgency urgency = Urgency::kStandby;
    std::vector<uint32_t> layers;  // that have not come
  };
  std::vector<Want> wants_;  // in the order in which they are served
  bool under_way_ = false, interrupting_ = false;
  std::optional<uint32_t> served_;  // the ticket under way; nullopt: it was dropped meanwhile
};

}  // namespace weft::worker
