// A binding ties a range of layers to a worker. Its number is what steps carry (`binding` on the
// wire). It belongs to the two, not to a plan: a worker that goes on with the same layers after a
// change of plan keeps its binding, and hears nothing of the change.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/layer_range.h"
#include "swarm/events.h"
#include "swarm/ids.h"

namespace weft::swarm {

// A range of layers in one of their forms.
struct LayerSpan : LayerRange {
  LayerForm form = LayerForm::kWhole;
  bool is_hub() const { return IsHub(form); }
  bool operator==(const LayerSpan&) const = default;
};

// As its worker was told (PrepareStage).
struct Binding {
  BindingId id;
  uint32_t stage = 0;  // what its steps carry beside its number
  LayerSpan layers;
  bool loaded = false;      // Prepared has come: steps may be sent
  bool standby = false;     // held ready; no plan counts on it
  bool only_loads = false;  // all of it was on the device when it was asked for
  Instant asked_at, answer_deadline;
};

// What a step or a session needs to know of a binding, its worker included.
struct BoundStage {
  BindingId binding;
  WorkerId worker;
  uint32_t stage = 0;
  LayerSpan layers;
};

}  // namespace weft::swarm
