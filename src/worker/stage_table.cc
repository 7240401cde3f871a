#include "worker/stage_table.h"

#include <algorithm>

namespace weft::worker {

bool StageTable::Prepare(uint32_t id, uint32_t stage, LayerRange layers, LayerForm form) {
  const uint32_t newest_held = bindings_.empty() ? 0 : bindings_.back().id;
  if (id <= std::max(newest_, newest_held) || bindings_.size() >= kMaxBindings) return false;
  newest_ = id;
  bindings_.push_back({id, stage, layers, form});
  return true;
}

void StageTable::SetLoaded(uint32_t id) {
  for (Binding& binding : bindings_)
    if (binding.id == id) binding.loaded = true;
}

const StageTable::Binding* StageTable::ToRun(uint32_t id, uint32_t stage) const {
  const Binding* found = Find(id);
  if (found == nullptr || !found->loaded || found->stage != stage) return nullptr;
  return found;
}

std::vector<LayerRange> StageTable::Ranges(LayerForm form) const {
  std::vector<LayerRange> ranges;
  for (const Binding& binding : bindings_)
    if (binding.form == form) ranges.push_back(binding.layers);
  return ranges;
}

void StageTable::Remove(uint32_t id) {
  std::erase_if(bindings_, [id](const Binding& binding) { return binding.id == id; });
}

void StageTable::RemoveUnloaded() {
  std::erase_if(bindings_, [](const Binding& binding) { return !binding.loaded; });
}

void StageTable::KeepOnly(std::span<const uint32_t> ids, std::span<const LayerRange> layers) {
  std::erase_if(bindings_, [&](const Binding& binding) {
    const bool wanted = std::find(ids.begin(), ids.end(), binding.id) != ids.end();
    return !wanted || std::none_of(layers.begin(), layers.end(), [&](LayerRange range) {
      return range.first <= binding.layers.first && binding.layers.end <= range.end;
    });
  });
}

const StageTable::Binding* StageTable::Find(uint32_t id) const {
  const auto found = std::find_if(bindings_.begin(), bindings_.end(),
                                  [id](const auto& binding) { return binding.id == id; });
  return found == bindings_.end() ? nullptr : &*found;
}

}  // namespace weft::worker
