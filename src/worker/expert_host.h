// ExpertHost: the experts that this worker holds for hubs, an engine of their own. Each layer's are
// one shard (program/shards.h), so that a message's rows for several of them run as one step. Of an
// output head it holds ranges, a layer of the engine each. Decides nothing: membership says what is
// held and what is run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "program/ir.h"
#include "wire/expert_frame.h"
#include "wire/expert_sets.h"

namespace weft::worker {

class ExpertHost {
 public:
  explicit ExpertHost(std::unique_ptr<engine::StageEngine> engine) : engine_(std::move(engine)) {}

  // Reads what of these experts is not held; `layers` are the whole programs of the layers that
  // `sets` names, in that order. On the thread that reads.
  Result<std::unique_ptr<engine::LoadedLayers>> Read(const std::vector<wire::LayerExperts>& sets,
                                                     std::span<const program::Program> layers,
                                                     engine::WeightSource& source);

  // The rest on the computing thread. Holds exactly what Read was asked for; gives the bytes held.
  uint64_t Install(std::unique_ptr<engine::LoadedLayers> read);
  void Clear();
  // The results of dispatches, in their order; of one that cannot be computed the sentence why. Of
  // those that may be added up and have the same rows one, their sum, in the place of the first.
  std::vector<wire::ExpertFrame> Run(std::span<const wire::ExpertFrame> dispatches);

 private:
  // One layer's experts as a layer of the engine, or its ranges as one each, by rising number.
  struct Shard {
    LayerRange layers;              // of the engine
    uint32_t columns = 0;           // of a row that goes in
    uint32_t slot_columns = 0;      // of one that comes out
    bool in_ranges = false;         // of an output head
    float step = 0;                 // of the grid that the experts' outputs lie on; 0: on none
    std::vector<uint32_t> experts;  // rising
  };
  using Shards = std::map<uint32_t, Shard>;  // by layer
  class LoadedExperts;

  // As three bytes a value where that was asked for, and holds all of it.
  void PutInSteps(wire::ExpertFrame& result) const;
  // The rows of some dispatches of one layer, and those results. An error is that of all.
  Status RunLayer(const Shard& shard, std::span<const wire::ExpertFrame> dispatches,
                  std::span<const size_t> which, std::vector<wire::ExpertFrame>& results);
  Status RunExperts(const Shard& shard, std::span<const wire::ExpertFrame> dispatches,
                    std::span<const size_t> which, std::vector<wire::ExpertFrame>& results);
  Status RunRange(const Shard& shard, const wire::ExpertFrame& asked, wire::ExpertFrame& result);
  Result<engine::StepOutput> Step(uint32_t layer, engine::OutputKind kind,
                                  std::span<const float> rows, size_t row_count);

  const std::unique_ptr<engine::StageEngine> engine_;
  std::mutex mutex_;
  Shards shards_;            // under mutex_: Read looks at them
  uint32_t next_index_ = 0;  // of the thread that reads
  uint32_t steps_ = 0;
};

}  // namespace weft::worker
