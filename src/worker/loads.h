// What is on its way into memory: bindings, experts and measurements, from their first byte until
// they are loaded or dropped; and what stays loaded. A part of membership (membership.h). The same
// in TypeScript: web/packages/worker/src/membership/loads.ts.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "worker/expert_work.h"
#include "worker/fetch_queue.h"
#include "worker/outbox.h"
#include "worker/stage_table.h"
#include "worker/step_queue.h"

namespace weft::worker {

class Loads {
 public:
  Loads(Outbox& out, StageTable& stages, ExpertWork& experts, StepQueue& queue)
      : out_(out), stages_(stages), experts_(experts), queue_(queue) {}

  // What is loaded from now on is of a model with so many layers.
  void Begin(uint32_t layer_count) {
    layer_count_ = layer_count;
    stages_.BeginConnection();
  }
  uint32_t layer_count() const { return layer_count_; }
  // Neither fetched nor read is anything.
  bool IsIdle() const { return !reading_ && !fetches_.under_way(); }

  // ---- what the server asks for ----

  void Download(const wire::pb::DownloadLayers& message);
  void Measure(const wire::pb::MeasureSpeed& message);
  void Prepare(const wire::pb::PrepareStage& message);
  void HoldExperts(const wire::pb::HoldExperts& message);
  void Retire(const wire::pb::Retire& message);
  void Release();

  // ---- on the way ----

  // Begins what can be begun, and interrupts what has to make way.
  void FetchNext();
  void ReadNext();
  void OnProgress(const FetchProgressed& event);
  void OnLayer(const LayerFetched& event);
  void OnFetchEnded(const Status& status);
  void OnRead(LayersRead event);
  std::optional<Work> TakeInstall(StepQueue::Install install);
  // What was read is not any more: it is installed, or nobody wants it.
  void OnReadOver() { reading_.reset(); }
  void OnInstalled(uint32_t ticket, const Result<Outcome>& outcome);

  // ---- unloading ----

  // What nobody needs goes, before anything else is done.
  void Unload() { queue_.PushFront(WhatIsNeeded()); }
  // What is neither loaded nor under way ends.
  void Drop();
  // Nothing that is held means anything any more.
  void Forget();

 private:
  // Its key is the ticket of the fetch.
  struct Load {
    uint32_t binding = 0;  // 0: to be measured
    std::vector<LayerRange> ranges;
    uint32_t runs = 0;                                            // of the measurement
    bool standby = false;                                         // nobody waits for it
    LayerForm form = LayerForm::kWhole;                           // of the ranges
    std::optional<std::vector<wire::LayerExperts>> experts = {};  // instead of ranges
    std::vector<LayerRange> timed = {};  // of the measurement; others are for its probes
    std::vector<Probe> probes = {};
  };

  // nullopt, and the end, when the range is not one of this model.
  std::optional<LayerRange> Checked(const wire::pb::LayerRange& range);
  void Add(Load load);
  // Of bindings that are gone.
  void DropUnwanted();
  void DropExperts();
  void DropOne(std::map<uint32_t, Load>::iterator load);
  void Fail(uint32_t ticket, const Error& error);
  // Of every binding, and what the last Retire named.
  KeepLayers WhatIsNeeded() const;
  // Layers that are kept for more than their hub form.
  std::vector<LayerRange> KeptWhole() const;

  Outbox& out_;
  StageTable& stages_;
  ExpertWork& experts_;
  StepQueue& queue_;
  uint32_t layer_count_ = 0;
  FetchQueue fetches_;
  std::map<uint32_t, Load> loads_;  // by ticket
  uint32_t next_ticket_ = 1;
  std::deque<uint32_t> fetched_;     // tickets of loads whose layers are to be read
  std::optional<uint32_t> reading_;  // from ReadLayers until its layers are installed
  bool read_interrupted_ = false;
  std::vector<LayerRange> kept_;  // what the last Retire named
};

}  // namespace weft::worker
