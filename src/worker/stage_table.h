// Which epochs were prepared, loaded and committed on this worker, and with which layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/engine.h"

namespace weft::worker {

class StageTable {
 public:
  // Replaces the stages that were never committed. False, and nothing changed, unless the epoch is
  // newer than every one before.
  bool Prepare(uint32_t epoch, uint32_t stage, engine::LayerRange layers);
  void SetLoaded(uint32_t epoch);
  // False unless the epoch is loaded. Steps of older epochs come no more: their stages are
  // forgotten.
  bool Commit(uint32_t epoch);

  bool Has(uint32_t epoch) const { return Find(epoch) != nullptr; }
  // The layers that a step of this epoch and stage runs; null unless it is what was committed last.
  const engine::LayerRange* ToRun(uint32_t epoch, uint32_t stage) const;
  // Of every stage.
  std::vector<engine::LayerRange> Ranges() const;

  void Remove(uint32_t epoch);
  // Forgets the stages whose layers do not all stay loaded.
  void KeepWithin(std::span<const engine::LayerRange> keep);
  void Clear() { stages_.clear(); }

 private:
  struct Stage {
    uint32_t epoch = 0, stage = 0;
    engine::LayerRange layers;
    bool loaded = false, committed = false;
  };
  const Stage* Find(uint32_t epoch) const;
  Stage* Find(uint32_t epoch);

  std::vector<Stage> stages_;  // by rising epoch: at most one committed and one that is not
  uint32_t newest_epoch_ = 0;
};

}  // namespace weft::worker
