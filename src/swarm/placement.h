// Placement: what a core that starts again needs of the one before it, so that devices which still
// hold their layers are used as they are. The core gives it (Core::placement) and takes it
// (CoreOptions::restored); files are others' business.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "swarm/binding.h"

namespace weft::swarm {

// Memory for a byte of weights. Engines load weights as f32 at worst (q4: 4.5 bits a weight) and
// need at least half the file's bytes at best.
inline constexpr double kMinWeightFactor = 0.25, kMaxWeightFactor = 16;

// Medians of what was measured of a device (WorkerTimes); what depends on its binding is not kept.
struct PlacedTimes {
  std::optional<double> overhead_us, handover_us, bytes_per_us, batch_gain;
  std::optional<double> down_rate, up_rate, load_rate;
};

// A device that was connected, or that was about to come back.
struct PlacedDevice {
  std::string device;             // Offer::device_id
  std::vector<Binding> bindings;  // that were loaded
  double weight_factor = 1;
  uint64_t used_bytes = 0;
  PlacedTimes times;
};

struct PlacedStage {
  BindingId binding;  // 0: a hole
  LayerSpan layers;
  double predicted_us = 0;
};

// How often a device was lost, and how long it was there (Lifetimes).
struct PlacedLifetime {
  std::string device;
  uint64_t losses = 0;
  double stayed_s = 0;
};

// How often each expert of a layer was chosen of late (popularity.h).
struct PlacedPopularity {
  uint32_t layer = 0;
  std::vector<float> counts;  // by expert
};

struct Placement {
  std::string swarm_id;      // CoreOptions::swarm_id
  uint64_t incarnation = 0;  // that it serves with; 0: of a server from before there were any
  BindingId last_binding;    // no number up to these is given out again
  SessionId last_session;
  std::vector<PlacedDevice> devices;
  std::vector<PlacedStage> stages;  // of the active plan; empty: there was none
  // Good for any model, and however long ago it was: CoreOptions::lifetimes.
  std::vector<PlacedLifetime> lifetimes;
  // Good for this model, whoever serves it: CoreOptions::popularity.
  std::vector<PlacedPopularity> popularity;
};

// kInvalidData: no core that served a model of so many layers gave this.
Status CheckPlacement(const Placement& placement, uint32_t layer_count);

}  // namespace weft::swarm
