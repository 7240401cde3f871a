#include "worker/stage_table.h"

#include <algorithm>

namespace weft::worker {

bool StageTable::Prepare(uint32_t epoch, uint32_t stage, engine::LayerRange layers) {
  if (epoch <= newest_epoch_) return false;
  newest_epoch_ = epoch;
  std::erase_if(stages_, [](const Stage& other) { return !other.committed; });
  stages_.push_back({epoch, stage, layers});
  return true;
}

void StageTable::SetLoaded(uint32_t epoch) {
  if (Stage* stage = Find(epoch)) stage->loaded = true;
}

bool StageTable::Commit(uint32_t epoch) {
  Stage* stage = Find(epoch);
  if (stage == nullptr || !stage->loaded) return false;
  stage->committed = true;
  std::erase_if(stages_, [epoch](const Stage& other) { return other.epoch < epoch; });
  return true;
}

const engine::LayerRange* StageTable::ToRun(uint32_t epoch, uint32_t stage) const {
  const Stage* found = Find(epoch);
  if (found == nullptr || !found->committed || found->stage != stage) return nullptr;
  return &found->layers;
}

std::vector<engine::LayerRange> StageTable::Ranges() const {
  std::vector<engine::LayerRange> ranges;
  for (const Stage& stage : stages_) ranges.push_back(stage.layers);
  return ranges;
}

void StageTable::Remove(uint32_t epoch) {
  std::erase_if(stages_, [epoch](const Stage& stage) { return stage.epoch == epoch; });
}

void StageTable::KeepWithin(std::span<const engine::LayerRange> keep) {
  std::erase_if(stages_, [keep](const Stage& stage) {
    return std::none_of(keep.begin(), keep.end(), [&](engine::LayerRange range) {
      return range.first <= stage.layers.first && stage.layers.end <= range.end;
    });
  });
}

const StageTable::Stage* StageTable::Find(uint32_t epoch) const {
  const auto found = std::find_if(stages_.begin(), stages_.end(),
                                  [epoch](const Stage& stage) { return stage.epoch == epoch; });
  return found == stages_.end() ? nullptr : &*found;
}

StageTable::Stage* StageTable::Find(uint32_t epoch) {
  return const_cast<Stage*>(std::as_const(*this).Find(epoch));
}

}  // namespace weft::worker
