// What the server asks to be loaded and unloaded.
#include "worker/loads.h"

#include <algorithm>

#include "worker/answers.h"

namespace weft::worker {

namespace pb = wire::pb;

namespace {

std::vector<uint32_t> LayersOf(const std::vector<LayerRange>& ranges) {
  std::vector<uint32_t> layers;
  for (const LayerRange range : ranges)
    for (uint32_t layer = range.first; layer < range.end; ++layer)
      if (std::find(layers.begin(), layers.end(), layer) == layers.end()) layers.push_back(layer);
  return layers;
}

}  // namespace

std::optional<LayerRange> Loads::Checked(const pb::LayerRange& range) {
  if (range.first() < range.end() && range.end() <= layer_count_)
    return LayerRange{range.first(), range.end()};
  out_.Violation("The server named layers " + std::to_string(range.first()) + " to " +
                 std::to_string(range.end()) + " of a model with " + std::to_string(layer_count_) +
                 ".");
  return std::nullopt;
}

void Loads::Download(const pb::DownloadLayers& message) {
  for (const uint32_t layer : message.layers())
    if (layer >= layer_count_)
      return out_.Violation("The server named layer " + std::to_string(layer) +
                            " of a model with " + std::to_string(layer_count_) + ".");
  fetches_.Add(next_ticket_++, FetchQueue::Urgency::kStandby,
               {message.layers().begin(), message.layers().end()});
}

void Loads::Prepare(const pb::PrepareStage& message) {
  const auto range = Checked(message.layers());
  if (!range) return;
  if (message.is_hub() && !experts_.can_be_hub())
    return out_.Violation("The server asked a worker that cannot be a hub to be one.");
  if (!stages_.Prepare(message.binding(), message.stage(), *range, LayerFormOf(message.is_hub())))
    return out_.Violation("The server asked for binding " + std::to_string(message.binding()) +
                          " to be prepared, expected one that is newer than those before, and at "
                          "most " +
                          std::to_string(StageTable::kMaxBindings) + " at a time.");
  Add({message.binding(), {*range}, 0, message.standby(), LayerFormOf(message.is_hub())});
}

void Loads::HoldExperts(const pb::HoldExperts& message) {
  auto sets = experts_.Hold(message, layer_count_);
  if (!sets) return;
  DropExperts();  // the newest counts
  Load load;
  load.binding = message.binding();
  load.experts = std::move(*sets);
  Add(std::move(load));
}

void Loads::Retire(const pb::Retire& message) {
  KeepLayers keep;
  for (const pb::LayerRange& range : message.keep()) {
    const auto checked = Checked(range);
    if (!checked) return;
    keep.ranges.push_back(*checked);
  }
  const std::vector<uint32_t> ids(message.bindings().begin(), message.bindings().end());
  stages_.KeepOnly(ids, keep.ranges);
  kept_ = keep.ranges;
  keep.hubs = stages_.Ranges(LayerForm::kHub);
  DropUnwanted();
  queue_.StopOver();
  queue_.Push(std::move(keep));
}

void Loads::Release() {
  stages_.Clear();
  experts_.Release();
  DropExperts();
  kept_.clear();
  queue_.ForgetSessions();
  DropUnwanted();
  queue_.Push(ReleaseAll{});
}

void Loads::Add(Load load) {
  const uint32_t ticket = next_ticket_++;
  fetches_.Add(ticket, load.standby ? FetchQueue::Urgency::kStandby : FetchQueue::Urgency::kStage,
               LayersOf(load.ranges));
  loads_.emplace(ticket, std::move(load));
}

void Loads::DropUnwanted() {
  for (auto load = loads_.begin(); load != loads_.end();) {
    const auto each = load++;
    const bool is_binding = each->second.binding != 0 && !each->second.experts;
    if (is_binding && !stages_.Has(each->second.binding)) DropOne(each);
  }
}

void Loads::DropExperts() {
  for (auto load = loads_.begin(); load != loads_.end();) {
    const auto each = load++;
    if (each->second.experts) DropOne(each);
  }
}

void Loads::DropOne(std::map<uint32_t, Load>::iterator load) {
  fetches_.Drop(load->first);
  std::erase(fetched_, load->first);
  loads_.erase(load);
}

KeepLayers Loads::WhatIsNeeded() const {
  KeepLayers keep{stages_.Ranges(LayerForm::kWhole), stages_.Ranges(LayerForm::kHub)};
  const std::vector<LayerRange> kept = KeptWhole();
  keep.ranges.insert(keep.ranges.end(), kept.begin(), kept.end());
  queue_.AddNeeded(&keep);
  return keep;
}

std::vector<LayerRange> Loads::KeptWhole() const {
  const std::vector<LayerRange> hubs = stages_.Ranges(LayerForm::kHub);
  if (hubs.empty()) return kept_;
  std::vector<LayerRange> kept;
  for (const LayerRange range : kept_)
    for (uint32_t layer = range.first; layer < range.end; ++layer)
      if (std::none_of(hubs.begin(), hubs.end(),
                       [layer](LayerRange hub) { return hub.first <= layer && layer < hub.end; }))
        kept.push_back({layer, layer + 1});
  return kept;
}

void Loads::Drop() {
  const auto& bindings = stages_.bindings();
  const bool is_unfinished = std::any_of(bindings.begin(), bindings.end(),
                                         [](const auto& binding) { return !binding.loaded; });
  const bool holds_more = queue_.IsLoading() || is_unfinished || !kept_.empty();
  experts_.OnConnectionLost();
  stages_.RemoveUnloaded();
  kept_.clear();
  loads_.clear();
  fetches_.Clear();
  fetched_.clear();
  if (queue_.DropInstalls()) reading_.reset();  // it was read, and is not installed
  if (holds_more) queue_.Push(WhatIsNeeded());
}

void Loads::Forget() {
  stages_ = {};
  kept_.clear();
  queue_.sessions().Clear();
  DropUnwanted();
  queue_.Push(ReleaseAll{});
}

}  // namespace weft::worker
