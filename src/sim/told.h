// What a worker was told to hold: by the messages alone, as it would add them up itself.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "sim/hash_model.h"
#include "swarm/workers/costs.h"
#include "swarm/workers/layer_set.h"
#include "wire/control.pb.h"
#include "wire/expert_sets.h"

namespace weft::sim {

class Told {
 public:
  explicit Told(uint32_t layer_count) : layers_(layer_count), hubs_(layer_count) {}

  // False: the message does not tell to load anything.
  // `factor`: the bytes that a byte of weights takes, as far as is known now.
  bool Note(const wire::pb::ServerMessage& message, const HashModel& model, double factor) {
    if (message.has_prepare_stage()) {
      const auto& prepare = message.prepare_stage();
      AddBinding(prepare.binding(), prepare.layers(), LayerFormOf(prepare.is_hub()));
      return true;
    }
    if (message.has_hold_experts()) return NoteExperts(message.hold_experts(), model, factor);
    for (const auto& range : message.measure_speed().ranges())
      layers_.AddRange(range.first(), range.end());
    if (message.has_measure_speed()) return true;
    if (message.has_release()) {  // what it has said of experts stays known
      const Told before = std::exchange(*this, Told(model.layer_count));
      expert_factor_ = before.expert_factor_;
      expert_factor_said_ = before.expert_factor_said_;
    }
    if (message.has_retire()) NoteRetire(message.retire(), model.layer_count);
    return false;
  }
  // What it has said.
  void Note(const wire::pb::WorkerMessage& message, uint32_t layer_count) {
    if (message.has_connect()) NoteHeld(message.connect(), layer_count);
    expert_factor_said_ = expert_factor_said_ || IsAnswer(message);
    if (IsAnswer(message))
      expert_factor_ = std::clamp(static_cast<double>(message.experts_held().used_bytes()) /
                                      static_cast<double>(expert_bytes_),
                                  0.25, 16.0);
  }

  // What it takes where a byte of weights takes `factor` of them. Working rows that an engine has
  // for layers it has for experts once more.
  uint64_t MemoryBytes(const swarm::Costs& costs, double factor) const {
    const uint64_t of_layers = costs.MemoryBytes(factor, layers_, hubs_);
    if (expert_bytes_ == 0) return of_layers;
    const double of_experts = static_cast<double>(expert_bytes_) * expert_factor_;
    return of_layers + static_cast<uint64_t>(std::ceil(of_experts)) +
           costs.layers()[0].scratch_bytes;
  }

 private:
  struct Binding {
    wire::pb::LayerRange layers;
    LayerForm form = LayerForm::kWhole;
  };

  bool IsAnswer(const wire::pb::WorkerMessage& message) const {
    return message.has_experts_held() && message.experts_held().binding() == experts_binding_ &&
           expert_bytes_ > 0;
  }
  void AddBinding(uint32_t id, const wire::pb::LayerRange& layers, LayerForm form) {
    bindings_[id] = {layers, form};
    layers_.AddRange(layers.first(), layers.end());
    if (IsHub(form)) hubs_.AddRange(layers.first(), layers.end());
  }
  bool NoteExperts(const wire::pb::HoldExperts& hold, const HashModel& model, double factor) {
    experts_binding_ = hold.binding();
    if (!expert_factor_said_) expert_factor_ = factor;
    expert_bytes_ = 0;
    const auto sets = wire::ReadExpertSets(hold.sets(), model.layer_count);
    if (!sets.ok()) return false;  // its worker says so
    for (const wire::LayerExperts& set : *sets)
      for (const uint32_t part : set.experts) expert_bytes_ += model.PartBytes(set.layer, part);
    return expert_bytes_ > 0;
  }
  void NoteRetire(const wire::pb::Retire& retire, uint32_t layer_count) {
    layers_ = hubs_ = swarm::LayerSet(layer_count);
    for (const auto& range : retire.keep()) layers_.AddRange(range.first(), range.end());
    std::erase_if(bindings_, [&](const auto& each) {
      return std::ranges::find(retire.bindings(), each.first) == retire.bindings().end();
    });
    for (const auto& [id, binding] : bindings_)
      if (IsHub(binding.form)) hubs_.AddRange(binding.layers.first(), binding.layers.end());
  }
  // What it does not name has gone with the connection before, experts always.
  void NoteHeld(const wire::pb::Connect& connect, uint32_t layer_count) {
    const Told before = std::exchange(*this, Told(layer_count));
    for (const auto& held : connect.held()) {
      const auto known = before.bindings_.find(held.id());
      AddBinding(held.id(), held.layers(),
                 known == before.bindings_.end() ? LayerForm::kWhole : known->second.form);
    }
  }

  swarm::LayerSet layers_, hubs_;  // of all of them, those in their hub form
  std::map<uint32_t, Binding> bindings_;
  uint32_t experts_binding_ = 0;
  uint64_t expert_bytes_ = 0;
  double expert_factor_ = 1;  // as it was known when they were asked for, or as it has said
  bool expert_factor_said_ = false;
};

}  // namespace weft::sim
