#include "worker/stage_table.h"

#include <algorithm>

namespace weft::worker {

bool StageTable::Prepare(uint32_t epoch, uint32_t stage, LayerRange layers, LayerForm form) {
  if (epoch <= newest_epoch_ || bindings_.size() >= kMaxBindings) return false;
  newest_epoch_ = epoch;
  bindings_.push_back({epoch, stage, layers, form});
  return true;
}

void StageTable::SetLoaded(uint32_t epoch) {
  for (Binding& binding : bindings_)
    if (binding.epoch == epoch) binding.loaded = true;
}

const StageTable::Binding* StageTable::ToRun(uint32_t epoch, uint32_t stage) const {
  const Binding* found = Find(epoch);
  if (found == nullptr || !found->loaded || found->stage != stage) return nullptr;
  return found;
}

std::vector<LayerRange> StageTable::Ranges(LayerForm form) const {
  std::vector<LayerRange> ranges;
  for (const Binding& binding : bindings_)
    if (binding.form == form) ranges.push_back(binding.layers);
  return ranges;
}

void StageTable::Remove(uint32_t epoch) {
  std::erase_if(bindings_, [epoch](const Binding& binding) { return binding.epoch == epoch; });
}

void StageTable::RemoveUnloaded() {
  std::erase_if(bindings_, [](const Binding& binding) { return !binding.loaded; });
}

void StageTable::KeepOnly(std::span<const uint32_t> epochs, std::span<const LayerRange> layers) {
  std::erase_if(bindings_, [&](const Binding& binding) {
    const bool wanted = std::find(epochs.begin(), epochs.end(), binding.epoch) != epochs.end();
    return !wanted || std::none_of(layers.begin(), layers.end(), [&](LayerRange range) {
      return range.first <= binding.layers.first && binding.layers.end <= range.end;
    });
  });
}

const StageTable::Binding* StageTable::Find(uint32_t epoch) const {
  const auto found = std::find_if(bindings_.begin(), bindings_.end(),
                                  [epoch](const auto& binding) { return binding.epoch == epoch; });
  return found == bindings_.end() ? nullptr : &*found;
}

}  // namespace weft::worker
