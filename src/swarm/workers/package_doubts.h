// PackageDoubts: devices that say that the server's layers are damaged, until it is known whether
// they are. The host looks at its files (CheckLayers); where these are in order, it is the device.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "swarm/events.h"
#include "swarm/outbox.h"
#include "swarm/workers/worker.h"

namespace weft::swarm {

// What a device said of the layers that it was given.
struct Accusation {
  WorkerId worker;
  LayerSpan layers;
  std::string problem;
};

class PackageDoubts {
 public:
  // Keeps references; both outlive it.
  PackageDoubts(const Roster& roster, Outbox& outbox) : roster_(roster), outbox_(outbox) {}

  // The layers are looked at, one check at a time.
  void Accuse(Accusation accusation);
  // What the check came to. Returns those who were wrong: their lines, or their engines, damage
  // layers that are in order.
  std::vector<Accusation> OnChecked(const LayersChecked& event);
  // What is known to be damaged, in a sentence for people; empty: nothing.
  const std::string& problem() const { return problem_; }

 private:
  void Check(LayerSpan layers);

  const Roster& roster_;
  Outbox& outbox_;
  std::vector<Accusation> open_;
  std::optional<LayerSpan> checking_;  // CheckLayers is under way
  std::string problem_;
};

}  // namespace weft::swarm
