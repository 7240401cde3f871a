// ExpertHost: the parts of layers that this worker holds for hubs, an engine of their own. Each
// layer's experts are one program (program/shards.h), so that a message's rows for several of them
// run as one step. So are its ranges of products that are asked for together. Of an output head
// each range is a program. Decides nothing: membership says what is held and what is run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
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

  // The rest on the computing thread. Holds exactly what Read was asked for; gives the bytes of its
  // weights. What computing takes is known of the model (planner/cost_model.h), as with layers.
  uint64_t Install(std::unique_ptr<engine::LoadedLayers> read);
  void Clear();
  // The results of dispatches, in their order; of one that cannot be computed the sentence why. Of
  // those that may be added up and have the same rows one, their sum, in the place of the first.
  std::vector<wire::ExpertFrame> Run(std::span<const wire::ExpertFrame> dispatches);

 private:
  // What one program of a layer computes, which is a layer of the engine.
  struct Piece {
    size_t begin = 0, end = 0;           // of Shard::experts
    uint32_t layer = 0;                  // of the engine
    uint32_t columns = 0;                // of a row that goes in
    uint32_t slot_columns = 0;           // of one that comes out
    SlotKind kind = SlotKind::kExperts;  // or kRanges, or kProducts
  };
  // What is held of one layer.
  struct Shard {
    LayerRange layers;              // of the engine
    std::vector<Piece> pieces;      // one behind the other
    float step = 0;                 // of the grid that the experts' outputs lie on; 0: on none
    std::vector<uint32_t> experts;  // and ranges, rising
  };
  using Shards = std::map<uint32_t, Shard>;  // by layer
  class LoadedExperts;

  // nullptr: it is not held.
  const Piece* FindPiece(const wire::ExpertFrame& asked) const;
  // As three bytes a value where that was asked for, and holds all of it.
  void PutInSteps(wire::ExpertFrame& result) const;
  // By dispatch; nullopt: it is in the sum of one before it.
  using Results = std::vector<std::optional<wire::ExpertFrame>>;
  // The rows of some dispatches of one piece, and those results. An error is that of all.
  Status RunPiece(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                  std::span<const size_t> which, Results& results);
  Status RunExperts(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                    std::span<const size_t> which, Results& results);
  Status RunSum(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                std::span<const size_t> which, Results& results);
  Status RunProducts(const Piece& piece, std::span<const wire::ExpertFrame> dispatches,
                     std::span<const size_t> which, Results& results);
  Status RunRange(const Piece& piece, const wire::ExpertFrame& asked, wire::ExpertFrame& result);
  // Where the part that is asked for stands among those of its piece.
  size_t PlaceOf(const Piece& piece, const wire::ExpertFrame& asked) const;
  Result<engine::StepOutput> Step(uint32_t layer, engine::OutputKind kind,
                                  std::span<const float> rows, size_t row_count,
                                  std::span<const uint32_t> parts = {});

  const std::unique_ptr<engine::StageEngine> engine_;
  std::mutex mutex_;
  Shards shards_;            // under mutex_: Read looks at them
  uint32_t next_index_ = 0;  // of the thread that reads
  uint32_t steps_ = 0;
};

}  // namespace weft::worker
